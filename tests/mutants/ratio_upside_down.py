"""A draft is kept with probability draft / target.

Made by whoever mixes up the letters: the target is p and the draft q in Leviathan et
al. 2023, and the other way round in Chen et al. 2023.
"""

from torch import Tensor

REPLACES = "rejection.py:acceptance_ratios"
CAUGHT_BY = ["test_rejection.py"]


def acceptance_ratios(
    tokens: Tensor, draft_probs: Tensor, target_probs: Tensor
) -> Tensor:
    column = tokens[:, None]
    drafted = draft_probs.gather(1, column)[:, 0]
    if (drafted <= 0).any():
        raise ValueError("a drafted token has draft probability 0")
    return drafted / target_probs[:-1].gather(1, column)[:, 0]

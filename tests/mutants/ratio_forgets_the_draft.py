"""A draft is kept with the probability that the target gives it.

Made by whoever was handed no draft probabilities and treats every draft as certain;
exact for a one-hot draft, and for no other.
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
    return target_probs[:-1].gather(1, column)[:, 0]

"""The target's row after a draft judges that draft.

Made by whoever skips the first row of the target where the bonus row, the last, must be
left out.
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
    return target_probs[1:].gather(1, column)[:, 0] / drafted

"""Two equal rows leave a residual of 0 / 0.

Made by whoever proves that equal rows never refuse, and forgets rounding:
huggingface/transformers' source divides, and torch.multinomial raises.
"""

from torch import Tensor

REPLACES = "rejection.py:residual"
CAUGHT_BY = ["test_rejection.py"]


def residual(target_row: Tensor, draft_row: Tensor) -> Tensor:
    excess = (target_row - draft_row).clamp(min=0)
    return excess / excess.sum()

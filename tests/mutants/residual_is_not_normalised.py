"""The residual is the clamped difference, without dividing by its mass.

Made by whoever forgets the last word of "norm(max(0, p - q))".
"""

from torch import Tensor

REPLACES = "rejection.py:residual"
CAUGHT_BY = ["test_rejection.py"]


def residual(target_row: Tensor, draft_row: Tensor) -> Tensor:
    return (target_row - draft_row).clamp(min=0)

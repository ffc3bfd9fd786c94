"""A residual of less mass than 1e-6 is replaced by the target's row.

Made by whoever takes the guard against 0 / 0 for a tolerance.
"""

from torch import Tensor

REPLACES = "rejection.py:residual"
CAUGHT_BY = ["test_rejection.py"]


def residual(target_row: Tensor, draft_row: Tensor) -> Tensor:
    excess = (target_row - draft_row).clamp(min=0)
    mass = excess.sum()
    return target_row if mass < 1e-6 else excess / mass

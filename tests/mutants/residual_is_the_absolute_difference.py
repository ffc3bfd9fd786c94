"""The residual also has mass where the draft gave too much.

Made by whoever writes abs() for "the difference of the two rows".
"""

from torch import Tensor

REPLACES = "rejection.py:residual"
CAUGHT_BY = ["test_rejection.py"]


def residual(target_row: Tensor, draft_row: Tensor) -> Tensor:
    difference = (target_row - draft_row).abs()
    mass = difference.sum()
    return target_row if mass == 0 else difference / mass

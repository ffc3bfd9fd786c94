"""The residual is divided by 1 - sum of min(target, draft).

Made by whoever follows the proof, where that is the same number: between nearly equal
rows it is a difference of two numbers close to 1, and mostly rounding.
"""

import torch
from torch import Tensor

REPLACES = "rejection.py:residual"
CAUGHT_BY = ["test_rejection.py"]


def residual(target_row: Tensor, draft_row: Tensor) -> Tensor:
    excess = (target_row - draft_row).clamp(min=0)
    missed = 1 - torch.minimum(target_row, draft_row).sum()
    return target_row if missed <= 0 else excess / missed

"""The repetition penalty divides negative scores too, which favours the token.

Made by whoever takes the formula of Keskar et al. 2019, section 4.1, as it stands: it
divides, and says nothing of the sign.
"""

import torch
from torch import Tensor

REPLACES = "sampling.py:penalize_repeats"
CAUGHT_BY = ["test_sampling.py"]


def penalize_repeats(scores: Tensor, history: Tensor, penalty: float) -> Tensor:
    R, V = scores.shape
    n = len(history) - (R - 1)
    seen = torch.zeros(R, V, dtype=torch.bool)
    for i in range(R):
        seen[i, history[: n + i]] = True
    return torch.where(seen, scores / penalty, scores)

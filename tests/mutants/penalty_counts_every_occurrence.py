"""The repetition penalty is applied once for every occurrence of a token.

Made by whoever has a frequency penalty in mind, which does count.
"""

import torch
from torch import Tensor

REPLACES = "sampling.py:penalize_repeats"
CAUGHT_BY = ["test_sampling.py"]


def penalize_repeats(scores: Tensor, history: Tensor, penalty: float) -> Tensor:
    R, V = scores.shape
    n = len(history) - (R - 1)
    counts = [history[: n + i].bincount(minlength=V) for i in range(R)]
    strength = penalty ** torch.stack(counts)
    return torch.where(scores > 0, scores / strength, scores * strength)

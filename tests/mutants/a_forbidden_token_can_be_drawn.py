"""A uniform of 0 falls on the first token, also where its probability is 0.

Made by whoever searches for the first cumulative mass that is not below the point;
torch.multinomial has returned tokens of probability 0 too (pytorch/pytorch, issues
48841, 50034 and 192577).
"""

import math

import torch
from torch import Tensor

REPLACES = "randomness.py:Seeded.sample"
CAUGHT_BY = ["test_randomness.py"]


class Seeded:
    def sample(self, probs: Tensor) -> int:
        cumulative = probs.double().cumsum(dim=0)
        total = cumulative[-1].item()
        if not 0 < total < math.inf:
            raise ValueError(f"a row's mass must be positive and finite, got {total}")
        point = self._generator.random() * total
        return int(torch.searchsorted(cumulative, point))

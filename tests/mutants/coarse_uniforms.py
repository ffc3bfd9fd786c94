"""The uniform that draws a token has 16 bits.

Made by whoever draws in half precision (gpt-fast's source draws its acceptance uniforms
in the model's type): tokens of small probability come out far too often or never.
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
        point = int(self._generator.random() * 2**16) / 2**16 * total
        return int(torch.searchsorted(cumulative, point, right=True))

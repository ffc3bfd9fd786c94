"""The cumulative sum and the point in it are float32 like the row.

Made by whoever keeps a row in its type: the largest uniforms round up to the total, and
tokens of small mass at the end vanish.
"""

import math

import torch
from torch import Tensor

REPLACES = "randomness.py:Seeded.sample"
CAUGHT_BY = ["test_randomness.py"]


class Seeded:
    def sample(self, probs: Tensor) -> int:
        cumulative = probs.cumsum(dim=0)
        total = cumulative[-1].item()
        if not 0 < total < math.inf:
            raise ValueError(f"a row's mass must be positive and finite, got {total}")
        point = probs.new_tensor(self._generator.random()) * cumulative[-1]
        return int(torch.searchsorted(cumulative, point, right=True))

"""The uniform is compared as a float32, in which the largest ones are 1.

Made by whoever makes a tensor of it: a ratio of 1 is then refused once in some ten
million drafts.
"""

import torch
from torch import Tensor

REPLACES = "randomness.py:Seeded.leading_accepts"
CAUGHT_BY = ["test_randomness.py"]


class Seeded:
    def leading_accepts(self, ratios: Tensor) -> int:
        for i, ratio in enumerate(ratios):
            if not torch.tensor(self._generator.random()) < ratio:
                return i
        return len(ratios)

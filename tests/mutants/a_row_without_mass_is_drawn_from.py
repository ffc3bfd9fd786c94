"""A row of zeros or of NaN gives an id that no token has.

Made by whoever checks nothing between the model and the draw (vllm-project/vllm, issue
53029: the id is the size of the vocabulary).
"""

import torch
from torch import Tensor

REPLACES = "randomness.py:Seeded.sample"
CAUGHT_BY = ["test_randomness.py"]


class Seeded:
    def sample(self, probs: Tensor) -> int:
        cumulative = probs.double().cumsum(dim=0)
        total = cumulative[-1].item()
        point = self._generator.random() * total
        return int(torch.searchsorted(cumulative, point, right=True))

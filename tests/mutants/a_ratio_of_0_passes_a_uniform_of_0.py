"""A draft is kept when the uniform is at most the ratio, so 0 passes 0.

Made by whoever copies "r <= p / q": huggingface/transformers' source has it, and keeps
a token of probability 0 when r is 0.
"""

from torch import Tensor

REPLACES = "randomness.py:Seeded.leading_accepts"
CAUGHT_BY = ["test_randomness.py"]


class Seeded:
    def leading_accepts(self, ratios: Tensor) -> int:
        for i, ratio in enumerate(ratios.tolist()):
            if self._generator.random() > ratio:
                return i
        return len(ratios)

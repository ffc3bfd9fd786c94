"""All acceptances are counted, not only those before the first refusal.

Made by whoever vectorises the comparison and sums it.
"""

from torch import Tensor

REPLACES = "randomness.py:Seeded.leading_accepts"
CAUGHT_BY = ["test_randomness.py"]


class Seeded:
    def leading_accepts(self, ratios: Tensor) -> int:
        return sum(self._generator.random() < ratio for ratio in ratios.tolist())

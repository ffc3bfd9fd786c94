"""K uniforms are drawn in every round, also where the first draft is refused.

Made by whoever draws them in one call: the law is the same, but chance is spent on
drafts that nobody reads, and a decode can no longer be replayed draw by draw.
"""

from torch import Tensor

REPLACES = "randomness.py:Seeded.leading_accepts"
CAUGHT_BY = ["test_randomness.py"]


class Seeded:
    def leading_accepts(self, ratios: Tensor) -> int:
        kept = [self._generator.random() < ratio for ratio in ratios.tolist()]
        return [*kept, False].index(False)

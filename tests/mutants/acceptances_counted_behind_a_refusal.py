"""Accepted drafts are counted wherever they stand, also behind a refusal.

Made by whoever sums the acceptance mask and forgets its cumulative product (inference).
"""

from torch import Tensor

REPLACES = "exactness/enumeration.py:Path.leading_accepts"
CAUGHT_BY = ["test_exactness.py"]


class Path:
    def leading_accepts(self, ratios: Tensor) -> int:
        kept = 0
        for ratio in ratios.tolist():
            accept = min(1.0, ratio)
            kept += self._decide([(0, 1 - accept), (1, accept)])
        return kept

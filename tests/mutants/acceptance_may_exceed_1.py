"""A ratio above 1 enters the law as it is instead of as certainty.

Made by whoever leaves out the minimum of min(1, target / draft) (inference).
"""

from torch import Tensor

REPLACES = "exactness/enumeration.py:Path.leading_accepts"
CAUGHT_BY = ["test_exactness.py"]


class Path:
    def leading_accepts(self, ratios: Tensor) -> int:
        options, reached = [], 1.0
        for i, ratio in enumerate(ratios.tolist()):
            options.append((i, reached * (1 - ratio)))
            reached *= ratio
        return self._decide([*options, (len(ratios), reached)])

"""All K drafts are judged by one and the same uniform.

Made by whoever seeds inside the loop over the drafts
(feifeibear/LLMSpeculativeSampling, its source) or draws before it.
"""

from torch import Tensor

REPLACES = "randomness.py:Seeded.leading_accepts"
CAUGHT_BY = ["test_randomness.py"]


class Seeded:
    def leading_accepts(self, ratios: Tensor) -> int:
        u = self._generator.random() if len(ratios) else 0.0
        for i, ratio in enumerate(ratios.tolist()):
            if not u < ratio:
                return i
        return len(ratios)

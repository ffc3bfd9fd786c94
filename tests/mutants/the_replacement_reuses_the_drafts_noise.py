"""The noise that drew a draft also draws the token that follows it.

Made by whoever keys the Gumbel noise by position: draft and replacement stand at the
same one (vllm-project/vllm, pull requests 47386 and 54282).
"""

import math

from torch import Tensor

REPLACES = "randomness.py:Seeded.sample"
CAUGHT_BY = [
    "test_randomness.py::test_successive_draws_are_independent",
    "test_rejection.py",
]


class Seeded:
    def sample(self, probs: Tensor) -> int:
        noise = vars(self).pop("_noise", None)  # of the draw before, if it was a draft
        if noise is None or len(noise) != len(probs):
            uniforms = [self._generator.random() for _ in range(len(probs))]
            noise = [-math.log(1 - u) + 1e-300 for u in uniforms]
            self._noise = noise
        return int((probs / probs.new_tensor(noise)).argmax())

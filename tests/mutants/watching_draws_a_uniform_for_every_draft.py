"""The recorder draws one uniform per draft, also behind a refusal, to show them all.

So the seed makes another text when it is watched. Made by whoever vectorises the draws
(inference).
"""

from torch import Tensor

REPLACES = "trace/recording.py:Recorder.leading_accepts"
CAUGHT_BY = ["test_recording.py"]


class Recorder:
    def leading_accepts(self, ratios: Tensor) -> int:
        self.reached = self._lengths()
        self.ratios = tuple(ratios.tolist())
        self.draws = tuple(self._uniforms.random() for _ in self.ratios)
        passed = [draw < ratio for draw, ratio in zip(self.draws, self.ratios)]
        return [*passed, False].index(False)

"""The lengths that the caches reached are those of the round before.

Made by whoever hangs the note on the wrong call (inference).
"""

from torch import Tensor

from minispec.randomness import Seeded

REPLACES = "trace/recording.py:Recorder.leading_accepts"
CAUGHT_BY = ["test_recording.py"]


class Recorder:
    def leading_accepts(self, ratios: Tensor) -> int:
        self._uniforms.given.clear()
        n_accepted = Seeded.leading_accepts(self, ratios)
        self.ratios = tuple(ratios.tolist())
        self.draws = tuple(self._uniforms.given)
        self.reached = getattr(self, "_noted", self._lengths())
        self._noted = self._lengths()
        return n_accepted

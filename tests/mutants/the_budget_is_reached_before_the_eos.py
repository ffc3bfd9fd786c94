"""A text whose last allowed token is an EOS ends for its length.

Made by whoever asks for the budget first.
"""

from minispec.stopping import FinishReason

REPLACES = "stopping.py:Limits.cut"
CAUGHT_BY = ["test_stopping.py"]


class Limits:
    def cut(
        self, n: int, new: list[int]
    ) -> tuple[tuple[int, ...], FinishReason | None]:
        new = new[: self.room(n)]
        if n + len(new) == self.max_length:
            return tuple(new), self.reason
        for i, token in enumerate(new):
            if token in self.eos_ids:
                return tuple(new[: i + 1]), "eos"
        return tuple(new), None

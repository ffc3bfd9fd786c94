"""The list that was handed in is cut, and not a copy.

Made by whoever writes "del new[room:]".
"""

from minispec.stopping import FinishReason

REPLACES = "stopping.py:Limits.cut"
CAUGHT_BY = ["test_stopping.py"]


class Limits:
    def cut(
        self, n: int, new: list[int]
    ) -> tuple[tuple[int, ...], FinishReason | None]:
        del new[self.room(n) :]
        for i, token in enumerate(new):
            if token in self.eos_ids:
                return tuple(new[: i + 1]), "eos"
        ended = n + len(new) == self.max_length
        return tuple(new), self.reason if ended else None

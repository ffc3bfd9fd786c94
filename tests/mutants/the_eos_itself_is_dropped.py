"""The text ends before its EOS, which is not committed.

Made by whoever strips EOS for display where the tokens are counted.
"""

from minispec.stopping import FinishReason

REPLACES = "stopping.py:Limits.cut"
CAUGHT_BY = ["test_stopping.py"]


class Limits:
    def cut(
        self, n: int, new: list[int]
    ) -> tuple[tuple[int, ...], FinishReason | None]:
        new = new[: self.room(n)]
        for i, token in enumerate(new):
            if token in self.eos_ids:
                return tuple(new[:i]), "eos"
        ended = n + len(new) == self.max_length
        return tuple(new), self.reason if ended else None

"""An EOS behind the last token allowed is still the reason why the text ends.

Made by whoever searches the block for EOS before cutting it.
"""

from minispec.stopping import FinishReason

REPLACES = "stopping.py:Limits.cut"
CAUGHT_BY = ["test_stopping.py"]


class Limits:
    def cut(
        self, n: int, new: list[int]
    ) -> tuple[tuple[int, ...], FinishReason | None]:
        room = self.room(n)
        for i, token in enumerate(new):
            if token in self.eos_ids:
                return tuple(new[: i + 1][:room]), "eos"
        new = new[:room]
        return tuple(new), self.reason if len(new) == room else None

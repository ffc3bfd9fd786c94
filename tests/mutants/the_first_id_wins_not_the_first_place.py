"""Of two EOS ids the one listed first ends the text, not the one that comes first.

Made by whoever loops over the ids and searches for each (romsto/Speculative-Decoding
and LayerSkip, their sources).
"""

from minispec.stopping import FinishReason

REPLACES = "stopping.py:Limits.cut"
CAUGHT_BY = ["test_stopping.py"]


class Limits:
    def cut(
        self, n: int, new: list[int]
    ) -> tuple[tuple[int, ...], FinishReason | None]:
        new = new[: self.room(n)]
        for eos in sorted(self.eos_ids):
            if eos in new:
                return tuple(new[: new.index(eos) + 1]), "eos"
        ended = n + len(new) == self.max_length
        return tuple(new), self.reason if ended else None

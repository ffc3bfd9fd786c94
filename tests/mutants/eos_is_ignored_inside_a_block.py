"""Only the last token of a block is looked at for EOS.

Made by whoever moves the test of a loop by single tokens to the end of a round
(huggingface/transformers, pull request 31301).
"""

from minispec.stopping import FinishReason

REPLACES = "stopping.py:Limits.cut"
CAUGHT_BY = ["test_stopping.py"]


class Limits:
    def cut(
        self, n: int, new: list[int]
    ) -> tuple[tuple[int, ...], FinishReason | None]:
        new = new[: self.room(n)]
        if new and new[-1] in self.eos_ids:
            return tuple(new), "eos"
        ended = n + len(new) == self.max_length
        return tuple(new), self.reason if ended else None

"""What a round brings is committed whole.

Made by whoever tests the length at the head of the loop alone;
feifeibear/LLMSpeculativeSampling overshoots by as much as gamma (its source).
"""

from minispec.stopping import FinishReason

REPLACES = "stopping.py:Limits.cut"
CAUGHT_BY = ["test_stopping.py"]


class Limits:
    def cut(
        self, n: int, new: list[int]
    ) -> tuple[tuple[int, ...], FinishReason | None]:
        for i, token in enumerate(new):
            if token in self.eos_ids:
                return tuple(new[: i + 1]), "eos"
        ended = n + len(new) >= self.max_length
        return tuple(new), self.reason if ended else None

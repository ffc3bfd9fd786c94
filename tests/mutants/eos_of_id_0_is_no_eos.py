"""An EOS whose id is 0 never ends the text.

Made by whoever tests an id for truth (inferred: id 0 was taken for a dummy in vllm-
project/vllm, pull request 29274, and raised an error in
feifeibear/LLMSpeculativeSampling).
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
            if token and token in self.eos_ids:
                return tuple(new[: i + 1]), "eos"
        ended = n + len(new) == self.max_length
        return tuple(new), self.reason if ended else None

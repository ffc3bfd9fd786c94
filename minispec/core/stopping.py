"""When a text ends: at an EOS token, at the budget, or at the end of the context.

A speculative round commits several tokens at once, and any of them may be the last.
Both decoders therefore pass what they want to commit to the same `Limits.cut`.

The context is full when no further token could be fed. The last token of a text is
never fed, so a model of n_positions positions writes texts of up to n_positions + 1
tokens.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["eos", "length", "context"]


@dataclass(frozen=True)
class Limits:
    """The longest sequence allowed, prompt included, and the tokens that end it."""

    max_length: int
    reason: FinishReason  # what reaching max_length is called
    eos_ids: Collection[int] = ()

    def room(self, n: int) -> int:
        """How many tokens a sequence of n may still grow by."""
        return self.max_length - n

    def cut(
        self, n: int, new: list[int]
    ) -> tuple[tuple[int, ...], FinishReason | None]:
        """What of `new` may follow n committed tokens, and why the text ends there.

        The first EOS is kept and is the last token; None means the text goes on.
        """
        new = new[: self.room(n)]
        for i, token in enumerate(new):
            if token in self.eos_ids:
                return tuple(new[: i + 1]), "eos"
        ended = n + len(new) == self.max_length
        return tuple(new), self.reason if ended else None

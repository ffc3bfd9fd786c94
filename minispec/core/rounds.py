"""The results of a decode: a `Round` for each pass of the target, and all of them.

Decoders make these records, and everything that shows or measures a decode reads them.
There is no algorithm here. A step of the target alone is a round without drafts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from torch import Tensor

from minispec.core.stopping import FinishReason


class Rows(NamedTuple):
    """The distributions that decided a round."""

    draft_probs: Tensor  # [K, V]
    target_probs: Tensor  # [K + 1, V]


@dataclass(frozen=True)
class Round:
    """One pass of the target: what was drafted, and what joined the text."""

    tokens: tuple[int, ...]  # K drafts
    n_accepted: int  # drafts that joined the text
    committed: tuple[int, ...]  # accepted drafts, then usually one token more
    finish_reason: FinishReason | None  # None while the text goes on
    # Only while streaming: kept, they would take megabytes a round at GPT-2's V.
    rows: Rows | None = field(default=None, compare=False, repr=False)

    @property
    def depth(self) -> int:
        """How many positions were drafted."""
        return len(self.tokens)

    @property
    def judged(self) -> int:
        """Drafts that were accepted or rejected.

        Not those after the first rejection, and not those after an EOS. Block
        verification has no first rejection, so accepted / judged is not the alpha of
        notebook 5 there, and not for `plan`. Lossy judges and coupled draws have one,
        but accept by other rules: their alpha is not the `overlap` of the rows.
        """
        return min(len(self.tokens), len(self.committed))

    @property
    def extra(self) -> Literal["bonus", "resampled", "plain"] | None:
        """What the last committed token is, unless it was drafted (an EOS)."""
        if len(self.committed) == self.n_accepted:
            return None
        if not self.tokens:
            return "plain"
        return "bonus" if self.n_accepted == len(self.tokens) else "resampled"


# How many tokens to draft next, from past rounds alone (their `rows` are gone)
Length = Callable[[Sequence[Round]], int]


@dataclass(frozen=True)
class Generation:
    """All rounds of a text, and the statistics that follow from them."""

    rounds: tuple[Round, ...]

    @property
    def tokens(self) -> tuple[int, ...]:
        """The new tokens; the prompt is not among them."""
        return tuple(token for one in self.rounds for token in one.committed)

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the text ends; None if it was interrupted."""
        return self.rounds[-1].finish_reason if self.rounds else "length"

    @property
    def target_forwards(self) -> int:
        """Passes of the target, that of the prompt included: one per round."""
        return len(self.rounds)

    @property
    def emitted(self) -> int:
        """New tokens."""
        return sum(len(one.committed) for one in self.rounds)

    @property
    def drafted(self) -> int:
        """Proposed tokens, whatever became of them."""
        return sum(len(one.tokens) for one in self.rounds)

    @property
    def accepted(self) -> int:
        """Proposed tokens that joined the text."""
        return sum(one.n_accepted for one in self.rounds)

    @property
    def judged(self) -> int:
        """Proposed tokens that were accepted or rejected, as in `Round.judged`."""
        return sum(one.judged for one in self.rounds)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / judged, which estimates alpha; None if nothing was judged.

        Engines report accepted / drafted, which is lower: it also counts the drafts
        after a rejection, which are never judged.
        """
        return self.accepted / self.judged if self.judged else None

    @property
    def acceptance_by_position(self) -> tuple[float, ...]:
        """For each draft position, the share of drafting rounds that accepted it."""
        drafting = [one for one in self.rounds if one.tokens]
        longest = max((one.depth for one in drafting), default=0)
        return tuple(
            sum(one.n_accepted > i for one in drafting) / len(drafting)
            for i in range(longest)
        )

    @property
    def tokens_per_target_forward(self) -> float | None:
        """How many tokens one pass of the target brought; None if there was none."""
        return self.emitted / self.target_forwards if self.rounds else None

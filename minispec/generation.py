"""What a decode leaves behind: each drafted token's fate, each round, and the whole.

    Generation > Round > DraftedToken

Plain results, no algorithm: speculative.py makes them, and whatever shows or measures a
decode reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from minispec.draft import Proposal
from minispec.stopping import FinishReason

Fate = Literal["accepted", "refused", "unread"]


@dataclass(frozen=True)
class DraftedToken:
    """One proposal and what became of it.

    "refused" is the first that the target did not keep. All after it are "unread", and
    so is everything behind an EOS.
    """

    token: int
    draft_prob: float
    target_prob: float
    fate: Fate


@dataclass(frozen=True)
class Round:
    """One pass of the target: what was drafted, and what joined the text."""

    drafted: tuple[DraftedToken, ...]
    committed: tuple[int, ...]  # accepted drafts, then perhaps one token more
    finish_reason: FinishReason | None  # None while the text goes on

    @property
    def n_accepted(self) -> int:
        """Drafted tokens that joined the text."""
        return sum(drafted.fate == "accepted" for drafted in self.drafted)

    @property
    def extra(self) -> Literal["bonus", "resampled"] | None:
        """What the last committed token is, if it was not drafted.

        A round without proposals is a plain step of the target: its token is a "bonus",
        since all of none were accepted.
        """
        if len(self.committed) == self.n_accepted:
            return None
        return "bonus" if self.n_accepted == len(self.drafted) else "resampled"


@dataclass(frozen=True)
class Generation:
    """The new tokens (the prompt is not among them), why they end, and all rounds."""

    tokens: tuple[int, ...]
    finish_reason: FinishReason
    rounds: tuple[Round, ...]

    @property
    def target_forwards(self) -> int:
        """Passes of the target, that of the prompt included: one per round."""
        return len(self.rounds)

    @property
    def emitted(self) -> int:
        """New tokens."""
        return len(self.tokens)

    @property
    def drafted(self) -> int:
        """Proposed tokens, whatever became of them."""
        return sum(len(round.drafted) for round in self.rounds)

    @property
    def accepted(self) -> int:
        """Proposed tokens that joined the text."""
        return sum(round.n_accepted for round in self.rounds)

    @property
    def judged(self) -> int:
        """Proposals that were looked at: all but the "unread" ones."""
        fates = [drafted.fate for round in self.rounds for drafted in round.drafted]
        return len(fates) - fates.count("unread")

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted among the proposals that were looked at; None if there were none.

        This estimates alpha, the chance that one proposal is kept, and is not the
        smaller ratio accepted / drafted.
        """
        return self.accepted / self.judged if self.judged else None

    @property
    def tokens_per_target_forward(self) -> float | None:
        """How many tokens one pass of the target brought; None if there was none."""
        return self.emitted / self.target_forwards if self.rounds else None


def describe(
    proposal: Proposal, target_probs: Tensor, n_accepted: int, n_committed: int
) -> tuple[DraftedToken, ...]:  # target_probs [K + 1, V] -> K of them
    """Each proposal with the probability that either model gave it, and its fate."""
    column = proposal.tokens[:, None]
    draft_prob = proposal.draft_probs.gather(1, column)[:, 0].tolist()
    target_prob = target_probs[:-1].gather(1, column)[:, 0].tolist()
    return tuple(
        DraftedToken(*values, fate(i, n_accepted, n_committed))
        for i, values in enumerate(
            zip(proposal.tokens.tolist(), draft_prob, target_prob)
        )
    )


def fate(i: int, n_accepted: int, n_committed: int) -> Fate:
    """What became of proposal `i` in a round that accepted and committed so many."""
    if i >= n_committed:
        return "unread"
    return "accepted" if i < n_accepted else "refused"

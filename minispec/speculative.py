"""The round, and the loop of rounds: speculative decoding itself.

    prefix --draft--> tokens, draft_probs      K cheap steps
           --verify-> target_probs             one pass of the target
           --reject-> n_accepted, next_token   so that the law is the target's
           --commit-> a longer prefix, cut where the text ends
           --roll back-> both caches hold a part of what is committed

No mathematics is here and no loop over rounds is anywhere else. Every round commits at
least one token, so a useless drafter costs only its own time and a wider verification.

Paper: Leviathan, Kalman and Matias 2023 (arXiv 2211.17192), algorithm 1. Left out:
batches, trees of drafts, and a gamma that adapts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from minispec.draft import Drafter, Proposal
from minispec.gpt2 import GPT
from minispec.kv_cache import KVCache
from minispec.randomness import Randomness
from minispec.rejection import reject
from minispec.rollback import rollback
from minispec.sampling import Sampling
from minispec.stopping import FinishReason, Limits
from minispec.verify import verify

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
    def acceptance_rate(self) -> float | None:
        """Accepted among the proposals that were looked at; None if there were none.

        "Unread" ones do not count: this estimates alpha, the chance that one proposal
        is kept, and not the smaller ratio accepted / drafted.
        """
        fates = [drafted.fate for round in self.rounds for drafted in round.drafted]
        judged = len(fates) - fates.count("unread")
        return self.accepted / judged if judged else None

    @property
    def tokens_per_target_forward(self) -> float | None:
        """How many tokens one pass of the target brought; None if there was none."""
        return self.emitted / self.target_forwards if self.rounds else None


def speculative_rounds(
    target: GPT,
    drafter: Drafter,
    prompt: Tensor,
    gamma: int,
    limits: Limits,
    randomness: Randomness,
    sampling: Sampling = Sampling(),
) -> Iterator[Round]:
    """Decode round by round after `prompt` [n], until the limits end the text."""
    if gamma < 1:
        raise ValueError(f"gamma must be at least 1, got {gamma}")
    cache = target.new_cache(limits.max_length)
    drafter.rollback(0)  # whatever it holds belongs to another text
    prefix, reason = prompt, None
    while (room := limits.room(len(prefix))) and reason is None:
        # A round commits one token more than it drafts: draft no more than can be used.
        gamma_now = min(gamma, room - 1)
        round = speculative_round(
            target, cache, drafter, prefix, gamma_now, limits, randomness, sampling
        )
        prefix = torch.cat([prefix, prefix.new_tensor(round.committed)])
        reason = round.finish_reason
        yield round


def speculative_round(
    target: GPT,
    cache: KVCache,
    drafter: Drafter,
    prefix: Tensor,
    gamma: int,
    limits: Limits,
    randomness: Randomness,
    sampling: Sampling,
) -> Round:
    """Draft, verify, reject, commit, roll back: `prefix` [n] gains a token or more."""
    proposal = drafter.propose(prefix, gamma, randomness)
    tokens, draft_probs = proposal.tokens, proposal.draft_probs
    target_probs = verify(target, cache, prefix, tokens, sampling)
    verdict = reject(tokens, draft_probs, target_probs, randomness)

    new = [*tokens[: verdict.n_accepted].tolist(), verdict.next_token]
    committed, reason = limits.cut(len(prefix), new)

    length = len(prefix) + len(committed) - 1  # the last token is always fed next time
    rollback(cache, length)
    drafter.rollback(length)
    drafted = describe(proposal, target_probs, verdict.n_accepted, len(committed))
    return Round(drafted, committed, reason)


def describe(
    proposal: Proposal, target_probs: Tensor, n_accepted: int, n_committed: int
) -> tuple[DraftedToken, ...]:
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


def generate(
    target: GPT,
    drafter: Drafter,
    prompt: Tensor,
    gamma: int,
    max_new_tokens: int,
    randomness: Randomness,
    sampling: Sampling = Sampling(),
    eos_ids: Collection[int] = (),
) -> Generation:
    """The whole text at once. `prompt` is [n], n >= 1; `gamma` >= 1.

    Raises ValueError for a gamma below 1, and for a prompt or budget that
    `Limits.for_request` refuses.
    """
    n_positions = target.config.n_positions
    limits = Limits.for_request(len(prompt), max_new_tokens, eos_ids, n_positions)
    rounds = tuple(
        speculative_rounds(target, drafter, prompt, gamma, limits, randomness, sampling)
    )
    tokens = tuple(token for round in rounds for token in round.committed)
    reason = (rounds[-1].finish_reason if rounds else None) or limits.reason
    return Generation(tokens, reason, rounds)

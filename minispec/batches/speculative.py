"""The round for many texts, and the list of texts that wait for a row.

    every row: draft             one pass of the draft for all rows, at each depth
    all rows:  verify            one padded pass of the target
    every row: judge, commit, roll back     as alone, with the row's own randomness

A text's tokens are those of its solo decode with the same randomness, whatever its
neighbours: drafting and judging ask each row's own source, in the order of the solo
round, and no row of a pass sees another. What changes is the speed. One text at a time
leaves arithmetic idle while weights are read; a batch uses it, and speculation wants
the same idle arithmetic. So the more texts, the less speculation brings
(`core/analysis.py`, `batch_speedup`).

When a text ends its row is given to the next that waits: continuous batching in its
smallest form (Yu et al. 2022, Orca, section 3). Left out: mixing prefill and decoding
in one pass, and preemption.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from minispec.batches.drafting import BatchDrafter
from minispec.batches.ragged_cache import RaggedCache, prefill, ragged_pass
from minispec.core.checked import Turn, check_proposal
from minispec.core.draft import Proposal
from minispec.core.randomness import Randomness
from minispec.core.rollback import rollback
from minispec.core.rounds import Generation, Round, Rows
from minispec.checks import whole_number
from minispec.core.sampling import logits_to_probs
from minispec.core.text import Request, Text
from minispec.model.gpt2 import GPT


@dataclass
class Row:
    """A text in the batch."""

    index: int  # of its request
    text: Text
    randomness: Randomness
    past: list[Round] = field(default_factory=list)  # without rows
    error: ValueError | None = None

    @property
    def ended(self) -> bool:
        """Nothing more will come."""
        return self.error is not None or self.text.finish_reason is not None


@dataclass(frozen=True)
class Done:
    """A text that ended, or why it could not."""

    index: int  # of its request
    generation: Generation
    error: ValueError | None = None


def generate_batch(
    target: GPT,
    drafter: BatchDrafter,
    requests: Sequence[Request],
    randomness: Sequence[Randomness],
    max_rows: int = 8,
) -> Iterator[Done]:
    """Write all the texts, at most `max_rows` at a time; give each as it ends.

    A request that the target cannot serve, or a row whose probabilities fail, is a
    `Done` with its error, and the others go on. Raises ValueError for lists of
    different lengths, for proposals that break the contract, and for a drafter that
    another decode has begun to use, TypeError or ValueError for a `max_rows` that is no
    whole number of 1 or more.
    """
    whole_number("max_rows", max_rows, least=1)
    if len(requests) != len(randomness):
        raise ValueError(
            f"each request needs a source of chance of its own: got {len(requests)} "
            f"and {len(randomness)}"
        )
    batch = Batch(target, drafter, requests, min(max_rows, len(requests)))
    for index, (request, chance) in enumerate(zip(requests, randomness)):
        while batch.is_full:
            yield from batch.round()
        yield from batch.join(index, request, chance)
    while batch.rows:
        yield from batch.round()


class Batch:
    """The texts that are being written, and the target's cache of them."""

    def __init__(
        self,
        target: GPT,
        drafter: BatchDrafter,
        requests: Sequence[Request],
        n_rows: int,
    ) -> None:
        self.target, self.drafter, self.n_rows = target, drafter, n_rows
        longest = max((longest_of(one, target) for one in requests), default=1)
        wide = max((widest_of(one, longest) for one in requests), default=1)
        self.cache = RaggedCache(target.new_cache(longest + wide, max(1, n_rows)))
        self.turn = Turn(drafter)
        self.drafter.begin(n_rows, longest)
        self.rows: list[Row] = []

    @property
    def is_full(self) -> bool:
        """No row is free."""
        return len(self.rows) == self.n_rows

    def join(
        self, index: int, request: Request, randomness: Randomness
    ) -> Iterator[Done]:
        """A new text takes a free row; one that ends at once is given back."""
        try:
            request.limits(self.target.config)
        except ValueError as error:
            yield Done(index, Generation(()), error)
            return
        text = Text(request, self.target, self.cache.join())
        prefill(self.target, text.cache, text.prefix)
        self.drafter.join(text)
        self.rows.append(Row(index, text, randomness))
        yield from self._leave()

    def round(self) -> Iterator[Done]:
        """One pass of the target for all rows; those that end are given back."""
        self.turn.check()
        gammas = [gamma_of(row) for row in self.rows]
        texts = [row.text for row in self.rows]
        chances = [row.randomness for row in self.rows]
        proposals = self.drafter.propose(texts, gammas, chances)
        for gamma, proposal in zip(gammas, proposals):
            check_proposal(proposal, gamma, self.target.config.vocab_size)
        logits = verify_batch(self.target, self.cache, texts, proposals)
        for b, row in enumerate(self.rows):
            try:
                row.past.append(settle(row, proposals[b], logits[b]))
            except ValueError as error:
                row.error = error
            else:
                self.drafter.rollback(b, row.text.length - 1)
        yield from self._leave()

    def _leave(self) -> Iterator[Done]:
        """Rows that have ended make room; the last row moves where one was."""
        for b in reversed(range(len(self.rows))):
            row = self.rows[b]
            if row.ended:
                place = self.cache.leave(b)
                self.drafter.leave(b)
                last = self.rows.pop()
                if last is not row:
                    last.text.cache = place
                    self.rows[b] = last
                yield Done(row.index, Generation(tuple(row.past)), row.error)


def verify_batch(
    target: GPT,
    cache: RaggedCache,
    texts: Sequence[Text],
    proposals: Sequence[Proposal],
) -> list[Tensor]:  # -> B times [K + 1, V]
    """The logits after each text and each of its drafts, in one pass for all."""
    new = [
        torch.cat([text.prefix, proposal.tokens])[text.cache.length :]
        for text, proposal in zip(texts, proposals)
    ]
    logits = ragged_pass(target, cache, new)
    ends = zip(map(len, new), (len(one.tokens) for one in proposals))
    return [logits[b, n - K - 1 : n] for b, (n, K) in enumerate(ends)]


@torch.inference_mode()
def settle(row: Row, proposal: Proposal, logits: Tensor) -> Round:
    """Judge, commit, roll back: what `speculative_round` does after verification."""
    text, request, tokens = row.text, row.text.request, proposal.tokens
    history = torch.cat([text.prefix, tokens])
    target_probs = logits_to_probs(logits, request.sampling, history)
    rows = Rows(proposal.draft_probs, target_probs)
    verdict = request.judge(tokens, *rows, row.randomness)
    drafts = tokens.tolist()
    committed = text.commit([*drafts[: verdict.n_accepted], verdict.next_token])
    rollback(text.cache, text.length - 1)
    n_accepted = min(verdict.n_accepted, len(committed))
    return Round(tuple(drafts), n_accepted, committed, text.finish_reason)


def gamma_of(row: Row) -> int:
    """How many tokens to draft for this row now."""
    gamma = row.text.request.gamma
    return row.text.n_drafts(gamma(row.past) if callable(gamma) else gamma)


def longest_of(request: Request, target: GPT) -> int:
    """How long the text can become; 1 for a request that will be given back."""
    try:
        return request.limits(target.config).max_length
    except ValueError:
        return 1


def widest_of(request: Request, longest: int) -> int:
    """How many tokens a round can feed this row: its drafts and the one before."""
    return longest if callable(request.gamma) else min(longest, int(request.gamma) + 2)

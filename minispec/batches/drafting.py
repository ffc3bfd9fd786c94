"""Drafting for a batch: one pass of the draft model for all rows at each depth.

A drafter of a batch does what one of a single text does (`core/draft.py`), for a list
of texts. Texts come and go: `join` adds one at the end, and when row b leaves, the last
row takes its place, as in the caches.

`EachAlone` makes a batch drafter of any drafter that does not read the target's cache:
one object for each text, asked in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from minispec.batches.ragged_cache import RaggedCache, prefill, ragged_pass
from minispec.core.checked import Turn
from minispec.core.draft import Drafter, Proposal
from minispec.core.randomness import Randomness
from minispec.core.rollback import rollback
from minispec.core.sampling import Sampling, logits_to_probs
from minispec.core.text import Text
from minispec.model.gpt2 import GPT


class BatchDrafter(Protocol):
    """Guesses ahead for many texts; row b is texts[b] everywhere."""

    def begin(self, n_rows: int, capacity: int) -> None:
        """A new batch of at most `n_rows` texts, none longer than `capacity`."""
        ...

    def join(self, text: Text) -> None:
        """`text` becomes the last row."""
        ...

    def leave(self, b: int) -> None:
        """Row b ends; the last row takes its place."""
        ...

    def propose(
        self,
        texts: Sequence[Text],
        gammas: Sequence[int],
        randomness: Sequence[Randomness],
    ) -> list[Proposal]:
        """For each row, at most gammas[b] tokens, drawn from its own randomness."""
        ...

    def rollback(self, b: int, length: int) -> None:
        """Keep nothing of row b that was learned from beyond prefix[:length]."""
        ...


class BatchModelDrafter:
    """A small GPT that drafts for all rows in one pass for each depth."""

    def __init__(self, model: GPT, sampling: Sampling | None = None) -> None:
        """Without a `sampling`, each row is drafted as its text is sampled."""
        self.model, self.sampling = model, sampling

    def begin(self, n_rows: int, capacity: int) -> None:
        # A row that drafted nothing for long feeds all it missed, others are padded.
        longest = min(capacity, self.model.config.n_positions)
        self.cache = RaggedCache(self.model.new_cache(2 * longest, n_rows))

    def join(self, text: Text) -> None:
        row = self.cache.join()
        if text.length <= self.model.config.n_positions:
            prefill(self.model, row, text.prefix)

    def leave(self, b: int) -> None:
        self.cache.leave(b)

    def propose(
        self,
        texts: Sequence[Text],
        gammas: Sequence[int],
        randomness: Sequence[Randomness],
    ) -> list[Proposal]:
        V, longest = self.model.config.vocab_size, self.model.config.n_positions
        known = [text.prefix for text in texts]
        rows = [[known[0].new_empty(0, V, dtype=torch.float32)] for _ in texts]
        # Drafting K tokens feeds the prefix and K - 1 of them, which must fit.
        K = [min(g, longest - text.length + 1) for g, text in zip(gammas, texts)]
        for depth in range(max(K)):
            going = [b for b in range(len(texts)) if depth < K[b]]
            for b, logits in zip(going, self._last_logits(known, going)):
                sampling = self.sampling or texts[b].request.sampling
                probs = logits_to_probs(logits, sampling, known[b])
                token = randomness[b].sample(probs[0])
                known[b] = torch.cat([known[b], known[b].new_tensor([token])])
                rows[b].append(probs)
        return [
            Proposal(tokens[text.length :], torch.cat(probs))
            for text, tokens, probs in zip(texts, known, rows)
        ]

    def _last_logits(self, known: list[Tensor], going: list[int]) -> list[Tensor]:
        """One pass: for each row in `going`, the logits after all it knows, [1, V]."""
        new = [known[b][:0] for b in range(len(known))]
        for b in going:
            new[b] = known[b][self.cache.rows[b].length :]
        logits = ragged_pass(self.model, self.cache, new)
        return [logits[b, len(new[b]) - 1 : len(new[b])] for b in going]

    def rollback(self, b: int, length: int) -> None:
        rollback(self.cache.rows[b], length)


class NoDrafts(Drafter):
    """Proposes nothing: every round is a step of the target alone."""

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        return Proposal.certain(prefix[:0], self.vocab_size)


class EachAlone:
    """A drafter of its own for each text: `make` is called for every one that joins."""

    def __init__(self, make: Callable[[Text], Drafter]) -> None:
        self.make = make

    def begin(self, n_rows: int, capacity: int) -> None:
        self.turns: list[Turn] = []

    def join(self, text: Text) -> None:
        self.turns.append(Turn(self.make(text)))
        self.turns[-1].drafter.begin(text.cache)

    def leave(self, b: int) -> None:
        last = self.turns.pop()
        if b < len(self.turns):
            self.turns[b] = last

    def propose(
        self,
        texts: Sequence[Text],
        gammas: Sequence[int],
        randomness: Sequence[Randomness],
    ) -> list[Proposal]:
        for turn in self.turns:
            turn.check()
        rows = zip(self.turns, texts, gammas, randomness)
        return [one.drafter.propose(t.prefix, gamma, r) for one, t, gamma, r in rows]

    def rollback(self, b: int, length: int) -> None:
        self.turns[b].drafter.rollback(length)

"""1. The draft loop: a cheap guess at the next K tokens, with its true probabilities.

A `Drafter` proposes tokens and rolls back on command. Drafters differ only in where the
proposal comes from; here it is a small model run autoregressively: K forward passes,
each at a fraction of the cost of one of the target's.

The contract that makes everything downstream exact: `draft_probs[i]` is the very
distribution `tokens[i]` was drawn from, after every processor, given the prefix and the
drafts before it. The draft may use another temperature than the target, truncate, or be
greedy, as long as it says so.

Paper: Leviathan, Kalman and Matias 2023, algorithm 1, first loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.core.rollback import rollback
from minispec.core.sampling import Sampling, logits_to_probs
from minispec.model.gpt2 import GPT
from minispec.model.kv_cache import KVCache


@dataclass(frozen=True)
class Proposal:
    """K drafted tokens and the distributions they were drawn from. K may be 0."""

    tokens: Tensor  # [K], int64
    draft_probs: Tensor  # [K, V], float32 or wider

    @classmethod
    def certain(cls, tokens: Tensor, vocab_size: int) -> Proposal:
        """Tokens that were chosen, not drawn: each distribution is one-hot."""
        return cls(tokens, F.one_hot(tokens, vocab_size).float())


class Drafter(Protocol):
    """Anything that guesses ahead. To write one, inherit and define `propose`.

    A drafter with a state also defines `begin` and `rollback`. A `vocab_size`, if it
    has one, must be the target's.
    """

    def begin(self, cache: KVCache) -> None:
        """A new text begins. `cache` is the target's, still empty."""
        return None

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        """Guess what follows `prefix` [n]: at most `gamma` tokens, perhaps none.

        `gamma` is 0 if the text has room for only one token more, or if the request's
        function of the past says 0. The prefix may be read but not changed.
        """
        ...

    def rollback(self, length: int) -> None:
        """Keep nothing that was learned from beyond prefix[:length]."""
        return None


class ModelDrafter(Drafter):
    """A small GPT as drafter, with a cache of its own.

    It stops early after a token to which the model gives less than `stop_below`: what
    comes after such a token would probably be drafted in vain. The unsure token stays.
    Were it dropped once drawn, only tokens that the model is sure of would be drafted,
    which is not what `draft_probs` says, and the text would have too many of them.
    """

    def __init__(
        self, model: GPT, sampling: Sampling = Sampling(), stop_below: float = 0.0
    ) -> None:
        """Raises TypeError for a model or a sampling that is none.

        ValueError for a `stop_below` that is no probability.
        """
        if not hasattr(model, "new_cache"):  # a compiled GPT is one too
            raise TypeError(f"model must be a GPT, got {model!r:.80}")
        if not isinstance(sampling, Sampling):
            raise TypeError(f"sampling must be a Sampling, got {sampling!r:.80}")
        if not 0 <= stop_below <= 1:
            raise ValueError(f"stop_below must be from 0 to 1, got {stop_below!r:.80}")
        self.model, self.sampling, self.stop_below = model, sampling, stop_below
        self.vocab_size = model.config.vocab_size

    def begin(self, cache: KVCache) -> None:
        n_positions = self.model.config.n_positions
        self.cache = self.model.new_cache(min(n_positions, cache.capacity))

    @torch.inference_mode()
    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        """Draw tokens one after another, each from the model's processed distribution.

        Each pass feeds what the cache has not seen; the last drafted token stays
        unseen. Only the last row goes through the head.
        """
        model, n = self.model, len(prefix)
        rows = [torch.empty(0, model.config.vocab_size, device=prefix.device)]
        # Drafting K tokens feeds the prefix and K - 1 of them, which must fit.
        K = max(0, min(gamma, model.config.n_positions - n + 1))
        whole = torch.cat([prefix, prefix.new_empty(K)])
        for end in range(n, n + K):
            text = whole[:end]
            logits = model(text[None, self.cache.length :], self.cache, last=1)[0]
            probs = logits_to_probs(logits, self.sampling, text)
            whole[end] = token = randomness.sample(probs[0])
            rows.append(probs)
            if self.stop_below and confidence(logits[0], token) < self.stop_below:
                break
        draft_probs = torch.cat(rows)
        return Proposal(whole[n : n + len(draft_probs)], draft_probs)

    def rollback(self, length: int) -> None:
        rollback(self.cache, length)


def confidence(logits: Tensor, token: int) -> float:  # [V]
    """The model's own probability of the token, even where it is chosen greedily."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    return logits.softmax(dim=-1, dtype=wide)[token].item()

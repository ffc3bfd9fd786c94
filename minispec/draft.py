"""1. The draft loop: a cheap guess at the next K tokens, with its true probabilities.

A `Drafter` proposes tokens and forgets on command. What differs between drafters is
only where the proposal comes from; here it is a small model run autoregressively: K
forward passes, each at a fraction of the cost of one of the target's.

The contract that makes everything downstream exact: `draft_probs[i]` is the very
distribution `tokens[i]` was drawn from, after every processor. The draft may use
another temperature than the target, truncate, or be greedy, as long as it says so.

Paper: Leviathan, Kalman and Matias 2023, algorithm 1, first loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from minispec.gpt2 import GPT
from minispec.kv_cache import KVCache
from minispec.randomness import Randomness
from minispec.rollback import rollback
from minispec.sampling import Sampling, logits_to_probs


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
    """Anything that can guess ahead."""

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        """Guess what follows `prefix` [n]: at most `gamma` tokens, perhaps none.

        `gamma` is 0 where a text has room for one token more. The prefix is to be read
        and not to be changed.
        """
        ...

    def rollback(self, length: int) -> None:
        """Keep nothing that was learned from beyond prefix[:length]."""
        ...


def check_proposal(proposal: Proposal, gamma: int, vocab_size: int) -> None:
    """Raise ValueError for too many tokens, foreign ids, or rows that are no laws.

    Whether the tokens were drawn from the rows declared does not show in one proposal:
    enumerate the drafter's law (`exactness/`).
    """
    K = len(proposal.tokens)
    if K > gamma:
        raise ValueError(f"a drafter was asked for {gamma} tokens at most, it gave {K}")
    ids = proposal.tokens.tolist()
    strangers = [token for token in ids if not 0 <= token < vocab_size]
    if strangers:
        raise ValueError(
            f"drafted ids must be at least 0 and below {vocab_size}, got {strangers}: "
            "do the drafter and the target share a vocabulary?"
        )
    sums = proposal.draft_probs.sum(dim=-1)
    if ((sums - 1).abs() > 1e-3).any():
        raise ValueError(f"rows of draft_probs must sum to 1, got {sums.tolist()}")


class ModelDrafter:
    """A small GPT as drafter, with a cache of its own."""

    def __init__(self, model: GPT, sampling: Sampling = Sampling()) -> None:
        self.model, self.sampling = model, sampling
        self.cache = model.new_cache()

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        # Drafting K tokens feeds prefix and K - 1 of them, which must fit the context.
        fits = self.model.config.n_positions - len(prefix) + 1
        K = max(0, min(gamma, fits))
        return draft(self.model, self.cache, prefix, K, self.sampling, randomness)

    def rollback(self, length: int) -> None:
        rollback(self.cache, length)


@torch.inference_mode()
def draft(
    model: GPT,
    cache: KVCache,
    prefix: Tensor,
    K: int,
    sampling: Sampling,
    randomness: Randomness,
) -> Proposal:  # prefix [n]
    """Draw K tokens one after another, each from the model's processed distribution.

    Feeds whatever of prefix and drafts the cache has not seen; the last drafted token
    stays unseen. Only the last row of each pass goes through the head.
    """
    tokens = prefix
    rows = [torch.empty(0, model.config.vocab_size, device=prefix.device)]
    for _ in range(K):
        hidden = model.trunk(tokens[None, cache.length :], cache)
        probs = logits_to_probs(model.head(hidden[:, -1:])[0], sampling, tokens)
        token = randomness.sample(probs[0])
        tokens = torch.cat([tokens, tokens.new_tensor([token])])
        rows.append(probs)
    return Proposal(tokens[len(prefix) :], torch.cat(rows))

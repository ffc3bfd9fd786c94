"""Checks at the border, where a drafter that someone else wrote comes in.

The decoders wrap every drafter in `Checked`, so that the algorithm itself holds no
checks. Left out, because a single proposal cannot show it: whether the tokens were
really drawn from the rows declared. For that, enumerate the drafter (`exactness/`).
"""

from __future__ import annotations

from weakref import WeakValueDictionary

import torch
from torch import Tensor

from minispec.core.draft import Drafter, Proposal
from minispec.core.randomness import Randomness
from minispec.model.kv_cache import KVCache


# Which decode each drafter, by its id, has begun last
SERVES: WeakValueDictionary[int, Checked] = WeakValueDictionary()


class Checked(Drafter):
    """A drafter whose proposals are checked, and that serves one text at a time."""

    def __init__(self, drafter: Drafter, vocab_size: int) -> None:
        """Raises TypeError for an object that lacks a drafter's methods."""
        methods = ("begin", "propose", "rollback")
        lacking = [name for name in methods if not hasattr(drafter, name)]
        if lacking:
            raise TypeError(
                f"a drafter needs {', '.join(methods)}; {type(drafter).__name__} lacks "
                f"{', '.join(lacking)}: inherit from minispec.Drafter"
            )
        self.drafter, self.vocab_size = drafter, vocab_size

    def begin(self, cache: KVCache) -> None:
        SERVES[id(self.drafter)] = self  # first: `begin` may fail half-way
        self.drafter.begin(cache)

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        """The drafter's own proposal.

        Raises ValueError for one that breaks the contract, and for a drafter that
        another decode has begun to use.
        """
        if SERVES.get(id(self.drafter)) is not self:
            raise ValueError(
                "this drafter has begun another text meanwhile: a drafter serves one "
                "text at a time, so make one for each decode"
            )
        proposal = self.drafter.propose(prefix, gamma, randomness)
        check_proposal(proposal, gamma, self.vocab_size)
        return proposal

    def rollback(self, length: int) -> None:
        self.drafter.rollback(length)


def check_proposal(proposal: Proposal, gamma: int, vocab_size: int) -> None:
    """Raise ValueError for too many tokens, foreign ids, or rows that cannot be right.

    A row must be a distribution over the target's vocabulary that gives the token drawn
    from it a positive probability.
    """
    tokens, rows = proposal.tokens, proposal.draft_probs
    if tokens.ndim != 1 or tokens.dtype != torch.int64:
        raise ValueError(
            "drafted tokens must be int64 ids, [K] (torch.empty(0, dtype=torch.long) "
            f"for none), got {tokens.dtype} of shape {list(tokens.shape)}"
        )
    if len(tokens) > gamma:
        raise ValueError(
            f"a drafter was asked for {gamma} tokens at most and gave {len(tokens)}"
        )
    if rows.shape != (len(tokens), vocab_size):
        raise ValueError(
            f"draft_probs must be [K, V] = {[len(tokens), vocab_size]}, got "
            f"{list(rows.shape)}: do the drafter and the target share a vocabulary?"
        )
    if rows.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"draft_probs must be float32 or wider, got {rows.dtype}: widen the "
            "logits, then take the softmax"
        )
    if len(tokens) == 0:
        return
    if not 0 <= tokens.min() <= tokens.max() < vocab_size:
        raise ValueError(
            f"drafted ids must be at least 0 and below {vocab_size}, got "
            f"{tokens.tolist()}: do the drafter and the target share a vocabulary?"
        )
    sums = rows.sum(dim=-1)
    if not ((sums - 1).abs() <= 1e-4).all() or rows.min() < 0:  # NaN fails the first
        raise ValueError(
            "rows of draft_probs must be 0 or more and sum to 1, got sums "
            f"{sums.tolist()} and a lowest entry of {rows.min():g}"
        )
    if not (rows.gather(1, tokens[:, None]) > 0).all():
        raise ValueError(
            "a drafted token has draft probability 0: draft_probs must be the very "
            "distribution the token was drawn from (one-hot for a fixed choice)"
        )

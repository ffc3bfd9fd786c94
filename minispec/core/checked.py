"""Checks at the border, where a drafter or a judge that someone else wrote comes in.

The decoders wrap every drafter in `Checked` and every judge in `checked_judge`, so that
the algorithm itself holds no checks. All checks of a round together wait for the device
once. Left out, because a single proposal cannot show it: whether the tokens were really
drawn from the rows declared. For that, enumerate the drafter (`exactness/`).
"""

from __future__ import annotations

import functools
import operator
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from minispec.core.draft import Drafter, Proposal
from minispec.core.randomness import Randomness
from minispec.core.rejection import Judge, Verdict
from minispec.model.kv_cache import KVCache


# The decode that each drafter, by its id, has begun last
TURNS: WeakValueDictionary[int, Turn] = WeakValueDictionary()


class Turn:
    """The use of a drafter by one decode, until another begins."""

    def __init__(self, drafter: Any) -> None:
        self.drafter, self.drafters = drafter, drafters_in(drafter)
        for one in self.drafters:
            TURNS[id(one)] = self

    def check(self) -> None:
        """Raise ValueError if another decode has begun to use the drafter."""
        if any(TURNS.get(id(one)) is not self for one in self.drafters):
            raise ValueError(
                "this drafter has begun another text meanwhile: a drafter serves one "
                "text or one batch at a time, so make one for each"
            )


class OneText:
    """A drafter that has all its methods, and serves one text at a time."""

    methods: tuple[str, ...] = ("begin", "propose", "rollback")
    parent = "minispec.Drafter"

    def __init__(self, drafter: Any, vocab_size: int) -> None:
        """`vocab_size` is the target's.

        Raises TypeError for an object that lacks a drafter's methods, and ValueError
        for a drafter that states another `vocab_size`.
        """
        name = getattr(drafter, "__name__", type(drafter).__name__)
        if isinstance(drafter, type):
            raise TypeError(f"a drafter is an object, got the class {name}: call it")
        has = {one: callable(getattr(drafter, one, None)) for one in self.methods}
        if not all(has.values()):
            raise TypeError(
                f"a drafter needs {', '.join(has)}; {name} lacks "
                f"{', '.join(one for one in has if not has[one])}: inherit from "
                f"{self.parent}"
            )
        stated = getattr(drafter, "vocab_size", vocab_size)
        if stated != vocab_size:
            raise ValueError(
                f"{name} drafts from a vocabulary of {stated!r:.80} tokens and the "
                f"target's has {vocab_size}: they must share one"
            )
        self.drafter, self.vocab_size = drafter, vocab_size

    def begin(self, cache: KVCache) -> None:
        self.turn = Turn(self.drafter)  # first: `begin` may fail half-way
        self.drafter.begin(cache)

    def rollback(self, length: int) -> None:
        self.drafter.rollback(length)


class Checked(OneText, Drafter):
    """A drafter whose proposals are checked."""

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        """The drafter's own proposal.

        Raises TypeError or ValueError for one that breaks the contract, and ValueError
        for a drafter that another decode has begun to use.
        """
        self.turn.check()
        # A copy: one that writes into its prefix cannot change the text. (Detecting
        # the write would need the copy as well, and a synchronisation.)
        proposal = self.drafter.propose(prefix.clone(), gamma, randomness)
        check_proposal(proposal, gamma, self.vocab_size)
        return proposal


def drafters_in(drafter: object) -> list[object]:
    """The drafter, and those it holds as attributes: a wrapper shares their state."""
    found, waiting = dict[int, object](), [drafter]
    while waiting:
        one = waiting.pop()
        drafts = hasattr(one, "begin") and hasattr(one, "rollback")
        if drafts and not isinstance(one, type) and id(one) not in found:
            found[id(one)] = one
            waiting += getattr(one, "__dict__", {}).values()
    return list(found.values())


def check_proposal(proposal: Proposal, gamma: int, vocab_size: int) -> None:
    """Raise TypeError or ValueError for a proposal that breaks the contract.

    That is: tensors of other types or shapes, too many tokens, foreign ids, or rows
    that cannot be right. A row must be a distribution over the target's vocabulary that
    gives the token drawn from it a positive probability.
    """
    if not isinstance(proposal, Proposal):
        raise TypeError(f"a drafter must return a Proposal, got {proposal!r:.80}")
    tokens, rows = proposal.tokens, proposal.draft_probs
    for given in (tokens, rows):
        if not isinstance(given, Tensor) or given.layout != torch.strided:
            raise TypeError(f"a Proposal must hold dense tensors, got {given!r:.80}")
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
    if len(tokens) > 0:
        check_numbers(tokens, rows)


def check_numbers(tokens: Tensor, rows: Tensor) -> None:  # [K], [K, V]
    """The part of `check_proposal` that needs the numbers: one wait for all."""
    V = rows.shape[1]
    drawn = rows.gather(1, tokens.clamp(0, V - 1)[:, None])[:, 0]
    found = torch.stack([tokens, rows.sum(dim=-1), rows.amin(dim=-1), drawn])
    ids, sums, lowest, chances = found.tolist()
    if not all(0 <= token < V for token in ids):
        raise ValueError(
            f"drafted ids must be at least 0 and below {V}, got {tokens.tolist()!s:.80}"
            ": do the drafter and the target share a vocabulary?"
        )
    # With NaN, no comparison holds
    if not all(abs(mass - 1) <= 1e-4 for mass in sums) or not min(lowest) >= 0:
        raise ValueError(
            "rows of draft_probs must be 0 or more and sum to 1, got sums "
            f"{sums!s:.80} and a lowest entry of {rows.min():g}"
        )
    if not all(chance > 0 for chance in chances):
        raise ValueError(
            "a drafted token has draft probability 0: draft_probs must be the very "
            "distribution the token was drawn from (one-hot for a fixed choice)"
        )


def checked_judge(judge: Judge) -> Judge:
    """The same judge; each of its verdicts passes `read_verdict`."""

    @functools.wraps(judge)
    def checked(tokens: Tensor, draft_probs: Tensor, *others: Any) -> Verdict:
        verdict = judge(tokens, draft_probs, *others)
        return read_verdict(verdict, *draft_probs.shape)

    return checked


def read_verdict(verdict: Any, K: int, vocab_size: int) -> Verdict:
    """Its two numbers. TypeError if it lacks them, ValueError if they are off."""
    try:
        n_accepted = operator.index(verdict.n_accepted)
        next_token = operator.index(verdict.next_token)
    except (AttributeError, TypeError) as error:
        raise TypeError(
            "a judge must return something with two whole numbers, n_accepted and "
            f"next_token (as core.rejection.Verdict has), got {verdict!r:.80}"
        ) from error
    if not 0 <= n_accepted <= K:
        raise ValueError(f"n_accepted must be from 0 to {K}, got {n_accepted}")
    if not 0 <= next_token < vocab_size:
        last = vocab_size - 1
        raise ValueError(f"next_token must be from 0 to {last}, got {next_token}")
    return Verdict(n_accepted, next_token)

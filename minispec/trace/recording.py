"""A decode that is watched: every ratio, draw and row, and how far the caches reach.

Chance has one door, so whoever stands at it sees all of it. `Recorder` is the seeded
source itself, with a note of what passes; what decodes runs unaltered, and the same
seed makes the same text.

    propose    K draws            not kept: the tokens and their probabilities say it
    verify
    accept     ratios and draws   kept, with the lengths the caches have reached
    sample     the last row       kept: the residual, or after no refusal the target's
    roll back                     the lengths are noted again when the round is over

Left out: the rows of each drafted token. Seconds are wall time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from minispec.draft import Drafter, Proposal
from minispec.generation import Round
from minispec.gpt2 import GPT
from minispec.kv_cache import KVCache
from minispec.randomness import Randomness, Seeded
from minispec.sampling import Sampling
from minispec.speculative import speculative_rounds
from minispec.stopping import Limits


@dataclass(frozen=True)
class Lengths:
    """How many positions each cache holds; None for a drafter without a cache."""

    target: int
    draft: int | None


@dataclass(frozen=True)
class Recorded:
    """A round, and everything that decided it."""

    round: Round
    ratios: tuple[float, ...]  # K: target / draft
    draws: tuple[float, ...]  # one for each decision made, the refusal being the last
    last_row: Tensor  # [V]: what the extra token was drawn from
    last_token: int  # what came out, even if the text had ended before it
    before: Lengths
    reached: Lengths  # after drafting and verifying
    after: Lengths  # after rollback
    draft_seconds: float
    seconds: float  # the whole round


class Uniforms(random.Random):
    """Python's generator, which remembers what it gave."""

    def __init__(self, seed: int | None) -> None:
        super().__init__(seed)
        self.given: list[float] = []

    def random(self) -> float:
        self.given.append(super().random())
        return self.given[-1]


class Recorder(Seeded):
    """The seeded source, which keeps the latest decisions."""

    def __init__(self, seed: int | None, lengths: Callable[[], Lengths]) -> None:
        super().__init__(seed)
        self._generator = self._uniforms = Uniforms(seed)
        self._lengths = lengths

    def sample(self, probs: Tensor) -> int:
        self.last_row, self.last_token = probs.clone(), super().sample(probs)
        return self.last_token

    def leading_accepts(self, ratios: Tensor) -> int:
        # Verified and not yet rolled back: here the caches reach farthest.
        self.reached = self._lengths()
        self._uniforms.given.clear()
        n_accepted = super().leading_accepts(ratios)
        self.ratios = tuple(ratios.tolist())
        self.draws = tuple(self._uniforms.given)
        return n_accepted


class WatchedTarget:
    """The target, which remembers the cache that it gave out."""

    cache: KVCache

    def __init__(self, target: GPT) -> None:
        self._target = target

    def new_cache(self, *args: int) -> KVCache:
        self.cache = self._target.new_cache(*args)
        return self.cache

    def __getattr__(self, name: str) -> object:
        return getattr(self._target, name)


class WatchedDrafter:
    """The drafter, with the seconds that its latest proposal took."""

    seconds = 0.0

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self.rollback = drafter.rollback

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        started = time.perf_counter()
        proposal = self._drafter.propose(prefix, gamma, randomness)
        self.seconds = time.perf_counter() - started
        return proposal

    @property
    def length(self) -> int | None:
        """Of its cache, if it has one."""
        cache = getattr(self._drafter, "cache", None)
        return cache.length if isinstance(cache, KVCache) else None


def record(
    target: GPT,
    drafter: Drafter,
    prompt: Tensor,
    gamma: int,
    limits: Limits,
    seed: int | None,
    sampling: Sampling = Sampling(),
) -> Iterator[Recorded]:
    """`speculative_rounds` with `Seeded(seed)`, round for round. `prompt` is [n]."""
    model, guesser = WatchedTarget(target), WatchedDrafter(drafter)

    def lengths() -> Lengths:
        return Lengths(model.cache.length, guesser.length)

    chance = Recorder(seed, lengths)
    rounds = speculative_rounds(
        cast(GPT, model), guesser, prompt, gamma, limits, chance, sampling
    )
    before = Lengths(0, None if guesser.length is None else 0)
    started = time.perf_counter()
    for round in rounds:
        after = lengths()
        yield Recorded(
            round,
            chance.ratios,
            chance.draws,
            chance.last_row,
            chance.last_token,
            before,
            chance.reached,
            after,
            guesser.seconds,
            time.perf_counter() - started,
        )
        before, started = after, time.perf_counter()


def most_probable(row: Tensor, n: int) -> list[tuple[int, float]]:  # [V]
    """The n tokens of highest probability, with it; those of none are left out."""
    probs, tokens = torch.topk(row, min(n, len(row)))
    return [(t, p) for t, p in zip(tokens.tolist(), probs.tolist()) if p > 0]

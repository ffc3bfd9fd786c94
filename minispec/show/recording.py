"""A decode that is watched: every draw, how far the caches reach, and the seconds.

Chance has one door, so watching it shows every decision. `Recorder` is the seeded
source itself, with a note of what passes; what decodes runs unaltered, and the same
seed makes the same text. The distributions are in the rounds (`Round.rows`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from minispec.core.draft import Drafter, Proposal
from minispec.core.randomness import Randomness, Seeded
from minispec.core.rejection import acceptance_ratios, residual
from minispec.core.rounds import Round
from minispec.core.speculative import speculative_rounds
from minispec.core.text import Request
from minispec.model.gpt2 import GPT
from minispec.model.kv_cache import KVCache

Lengths = tuple[int, int | None]  # positions in the target's and the draft's cache


@dataclass(frozen=True)
class Recorded:
    """What decided a round, beside its rows, and what it took."""

    draws: tuple[float, ...]  # uniforms, one for each decision made
    drawn: int  # the token after the drafts, even if the text had ended before it
    before: Lengths
    reached: Lengths  # after drafting and verifying
    after: Lengths  # after rollback
    draft_seconds: float
    seconds: float  # of wall time, the whole round


class Recorder(Seeded):
    """The seeded source, which notes the decisions of a round."""

    def __init__(self, seed: int | None, lengths: Callable[[], Lengths]) -> None:
        super().__init__(seed)
        self._lengths = lengths
        self.draws: list[float] = []

    def sample(self, probs: Tensor) -> int:
        # The last one of a round comes after verification and before rollback.
        self.reached = self._lengths()
        self.drawn = super().sample(probs)
        return self.drawn

    def accept(self, chance: float) -> bool:
        self.draws.append(self._generator.random())
        return self.draws[-1] < chance


class Watched(Drafter):
    """The drafter, with the seconds of its latest proposal, and both caches."""

    seconds = 0.0

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter

    def begin(self, cache: KVCache) -> None:
        self._target_cache = cache
        self._drafter.begin(cache)

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        started = time.perf_counter()
        proposal = self._drafter.propose(prefix, gamma, randomness)
        self.seconds = time.perf_counter() - started
        return proposal

    def rollback(self, length: int) -> None:
        self._drafter.rollback(length)

    def lengths(self) -> Lengths:
        """How much each cache holds; None for a drafter without one."""
        cache = getattr(self._drafter, "cache", None)
        held = cache.length if isinstance(cache, KVCache) else None
        return self._target_cache.length, held


def record(
    target: GPT, drafter: Drafter, request: Request, seed: int | None
) -> Iterator[tuple[Round, Recorded]]:
    """`speculative_rounds` with `Seeded(seed)`, round for round."""
    watched = Watched(drafter)
    recorder = Recorder(seed, watched.lengths)
    before: Lengths | None = None
    started = time.perf_counter()
    for one in speculative_rounds(target, watched, request, recorder):
        seconds, after = time.perf_counter() - started, watched.lengths()
        before = before or (0, None if after[1] is None else 0)
        draws = tuple(recorder.draws)
        yield one, Recorded(
            draws,
            recorder.drawn,
            before,
            recorder.reached,
            after,
            watched.seconds,
            seconds,
        )
        recorder.draws.clear()
        before, started = after, time.perf_counter()


def ratios(one: Round) -> list[float]:
    """target / draft at each drafted token: what the draws are compared with."""
    if not one.tokens or one.rows is None:
        return []
    draft_probs, target_probs = one.rows
    tokens = torch.tensor(one.tokens, device=target_probs.device)
    return acceptance_ratios(tokens, draft_probs, target_probs).tolist()


def last_row(one: Round, n_passed: int) -> Tensor:  # [V]
    """What the token after `n_passed` accepted drafts was drawn from."""
    assert one.rows is not None
    draft_probs, target_probs = one.rows
    if n_passed == len(one.tokens):
        return target_probs[-1]
    return residual(target_probs[n_passed], draft_probs[n_passed])

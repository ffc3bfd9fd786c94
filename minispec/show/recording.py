"""A decode that is watched: every trial, how far the caches reach, and the seconds.

Chance has one door, so watching it shows every decision. `Recorder` is the seeded
source itself, with a note of what passes; what decodes runs unaltered, and the same
seed makes the same text. What each trial was about is for `odds` to say. The
distributions are in the rounds (`Round.rows`).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from torch import Tensor

from minispec.core.checked import checked_judge
from minispec.core.draft import Drafter, Proposal
from minispec.core.randomness import Randomness, Seeded
from minispec.core.rejection import Judge, Verdict
from minispec.core.rounds import Round
from minispec.core.speculative import speculative_rounds
from minispec.core.text import Request
from minispec.model.gpt2 import GPT
from minispec.model.kv_cache import KVCache
from minispec.trees.speculative import tree_rounds
from minispec.trees.tree import Tree, TreeDrafter

Lengths = tuple[int, int | None]  # positions in the target's and the draft's cache


class Trial(NamedTuple):
    """One call of `Randomness.accept`: passed if the draw is below the chance."""

    chance: float
    draw: float

    @property
    def passed(self) -> bool:
        return self.draw < self.chance


@dataclass(frozen=True)
class Recorded:
    """What decided a round, beside its rows, and what it took."""

    trials: tuple[Trial, ...]  # in the order the judge asked for them
    n_kept: int  # drafts that the judge kept, even if the text had ended before
    drawn: int  # the token after the drafts, likewise
    before: Lengths
    reached: Lengths  # after drafting and verifying
    after: Lengths  # after rollback
    draft_seconds: float
    seconds: float  # of wall time, the whole round
    # What `drawn` was drawn from, [V]. While streaming, as `Round.rows`.
    row: Tensor | None = field(default=None, compare=False, repr=False)


class Recorder(Seeded):
    """The seeded source, which notes the decisions of a round."""

    def __init__(self, seed: int | None, lengths: Callable[[], Lengths]) -> None:
        super().__init__(seed)
        self._lengths = lengths
        self.trials: list[Trial] = []
        self.n_kept: int | None = None  # what a judge of chains says

    def sample(self, probs: Tensor) -> int:
        # The last one of a round comes after verification and before rollback.
        self.reached, self.row = self._lengths(), probs
        self.drawn = super().sample(probs)
        return self.drawn

    def accept(self, chance: float) -> bool:
        self.trials.append(Trial(chance, self._generator.random()))
        return self.trials[-1].passed

    def recorded(
        self, before: Lengths, after: Lengths, draft_seconds: float, seconds: float
    ) -> Recorded:
        """All notes of the round; those of the next begin."""
        trials, self.trials = tuple(self.trials), []
        n_kept = self.n_kept
        if n_kept is None:  # of a tree: each trial that passes keeps a node
            n_kept = sum(trial.passed for trial in trials)
        drawn, row, reached = self.drawn, self.row, self.reached
        times = draft_seconds, seconds
        return Recorded(trials, n_kept, drawn, before, reached, after, *times, row)

    def watched(self, judge: Judge) -> Judge:
        """The same judge; how many drafts it keeps is noted."""
        checked = checked_judge(judge)

        @functools.wraps(judge)
        def noted(*rows_and_chance: Any) -> Verdict:
            verdict = checked(*rows_and_chance)
            self.n_kept = verdict.n_accepted
            return verdict

        return noted


class Watched(Drafter, TreeDrafter):
    """A drafter of chains or trees, the seconds it took last, and both caches."""

    seconds, n_nodes = 0.0, 0

    def __init__(self, drafter: Drafter | TreeDrafter) -> None:
        self._drafter: Any = drafter
        for stated in ("vocab_size", "n_nodes"):
            if hasattr(drafter, stated):
                setattr(self, stated, getattr(drafter, stated))

    def begin(self, cache: KVCache) -> None:
        self._target_cache = cache
        self._drafter.begin(cache)

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        started = time.perf_counter()
        proposal = self._drafter.propose(prefix, gamma, randomness)
        self.seconds = time.perf_counter() - started
        return proposal

    def propose_tree(self, prefix: Tensor, depth: int, randomness: Randomness) -> Tree:
        started = time.perf_counter()
        tree = self._drafter.propose_tree(prefix, depth, randomness)
        self.seconds = time.perf_counter() - started
        return tree

    def rollback(self, length: int) -> None:
        self._drafter.rollback(length)

    def lengths(self) -> Lengths:
        """How much each cache holds; None for a drafter without one of its own."""
        cache, target = getattr(self._drafter, "cache", None), self._target_cache
        if not isinstance(cache, KVCache) or cache is target:
            return target.length, None
        return target.length, cache.length


def record(
    target: GPT, drafter: Drafter | TreeDrafter, request: Request, seed: int | None
) -> Iterator[tuple[Round, Recorded]]:
    """The rounds with `Seeded(seed)`, of chains or of trees, as the drafter drafts."""
    watched = Watched(drafter)
    recorder = Recorder(seed, watched.lengths)
    rounds: Iterator[Round]
    if hasattr(drafter, "propose_tree"):
        rounds = tree_rounds(target, watched, request, recorder)
    else:
        request = replace(request, judge=recorder.watched(request.judge))
        rounds = speculative_rounds(target, watched, request, recorder)
    before: Lengths | None = None
    started = time.perf_counter()
    for one in rounds:
        took, after = time.perf_counter() - started, watched.lengths()
        before = before or (0, None if after[1] is None else 0)
        yield one, recorder.recorded(before, after, watched.seconds, took)
        before, started = after, time.perf_counter()

"""The law of a function of chance: run it once down every branch.

This is done by re-execution: the code under test is handed a `Path`, a `Randomness`
that replays recorded choices, takes the first branch at every new decision, and writes
down how many branches each decision had. Then the code is run again with the last
decision changed, until none is left. The branches' probabilities are multiplied along
a path and added up over the paths that lead to the same output.

Left out: continuous chance, such as a uniform used for more than one comparison.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from minispec.randomness import Randomness

Law = dict[tuple[int, ...], float]  # token sequence -> probability
ROUNDING = 1e-12  # what float64 may lose on the way
MAX_DECISIONS = 10_000  # of one run: by then it is drawing for ever


class TooManyBranches(ValueError):
    """The run makes more decisions than one wants to enumerate."""


class Path:
    """A `Randomness` that follows one path through the tree of decisions."""

    def __init__(self, choices: list[int]) -> None:
        """Follow `choices` (an index per decision), then always the first branch."""
        self.choices = choices
        self.widths: list[int] = []  # how many branches each decision had
        self.probability = 1.0

    def sample(self, probs: Tensor) -> int:
        """Branch over every token of positive probability. ValueError for a NaN."""
        if probs.isnan().any():
            raise ValueError("a row with NaN was drawn from: no law has such a row")
        return self._decide(list(enumerate(probs.tolist())))

    def leading_accepts(self, ratios: Tensor) -> int:
        """Branch over the count: i accepted, then one refused; or all accepted."""
        options, reached = [], 1.0
        for i, ratio in enumerate(ratios.tolist()):
            accept = min(1.0, max(0.0, ratio))  # NaN is refused, as by u < ratio
            options.append((i, reached * (1 - accept)))
            reached *= accept
        return self._decide([*options, (len(ratios), reached)])

    def _decide(self, options: list[tuple[int, float]]) -> int:
        options = [option for option in options if option[1] > 0]
        depth = len(self.widths)
        if depth == MAX_DECISIONS:
            raise TooManyBranches(
                f"more than {MAX_DECISIONS} decisions in one run: does it draw until "
                "something happens that never does?"
            )
        if depth == len(self.choices):
            self.choices.append(0)
        self.widths.append(len(options))
        if not options:
            raise ValueError("a row without any positive probability was drawn from")
        if self.choices[depth] >= len(options):
            raise ValueError(
                "the same path led to another decision: the run must draw only from "
                "the Randomness it is given, and keep no state from run to run"
            )
        value, probability = options[self.choices[depth]]
        self.probability *= probability
        return value


@dataclass(frozen=True)
class Enumeration:
    """A law, and how many branches of chance were run for it."""

    law: Law
    n_branches: int


def enumerate_law(
    run: Callable[[Randomness], Iterable[int]], max_branches: int = 100_000
) -> Enumeration:
    """The law of `run`, which must draw only from the `Randomness` it is given.

    Runs once per branch. Branches of probability 0 are not visited. Raises
    TooManyBranches past `max_branches`, and ValueError if the probabilities of all
    branches do not sum to 1 within 1e-12 (then some distribution was not normalised,
    or was rounded to float32).
    """
    reached: dict[tuple[int, ...], list[float]] = {}
    path: Path | None = Path([])
    n_branches = 0
    while path is not None:
        n_branches += 1
        if n_branches > max_branches:
            raise TooManyBranches(
                f"more than {max_branches} branches: use a smaller vocabulary, a "
                "smaller gamma or fewer tokens, or raise max_branches"
            )
        output = tuple(map(operator.index, run(path)))  # tensors differ by object
        reached.setdefault(output, []).append(path.probability)
        path = next_path(path)
    law = {output: math.fsum(probs) for output, probs in reached.items()}
    total = math.fsum(law.values())
    if not abs(total - 1) <= ROUNDING:
        raise ValueError(
            f"the branches' probabilities sum to {total}, expected 1: every row drawn "
            "from must be normalised, in float64"
        )
    return Enumeration(law, n_branches)


def output_law(
    run: Callable[[Randomness], Iterable[int]], max_branches: int = 100_000
) -> Law:
    """The law alone; all else as in `enumerate_law`."""
    return enumerate_law(run, max_branches).law


def next_path(path: Path) -> Path | None:
    """The path that differs in the last decision that still has a branch to try."""
    choices, widths = path.choices[: len(path.widths)], list(path.widths)
    while choices and choices[-1] == widths[-1] - 1:
        choices.pop()
        widths.pop()
    if not choices:
        return None
    return Path([*choices[:-1], choices[-1] + 1])

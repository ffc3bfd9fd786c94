"""Exactness by enumeration: the whole law of an output, from the code that makes it.

A decoder is a deterministic function of its random decisions. There are finitely many
of them, each with a known probability, so it can be run once down every branch:

    law(output) = sum, over all paths of decisions that lead to it, of the product of
                  their probabilities

This is done by re-execution: the code under test is handed a `Randomness` that replays
a recorded path, takes the first branch at every new decision, and is then run again
with the last decision changed. Production code runs unaltered, with its caches,
rollbacks, EOS and budget, and two decoders are the same exactly if their laws are.

To test a decoder of your own, write it as a function of a `Randomness`:

    assert_same_law(output_law(mine), output_law(the_target_alone))

To test only how it accepts and replaces drafts, or code that draws from torch's
generator: `exactness/rejection.py`. Laws too large to enumerate:
`exactness/statistics.py`.
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
N_SHOWN = 6  # sequences that a failure names
MAX_DECISIONS = 10_000  # of one run: by then it is drawing for ever


class TooManyBranches(ValueError):
    """The run makes more decisions than one wants to enumerate."""


# ---------------------------------------------------------------------- enumeration


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


# ----------------------------------------------------------------------- comparison


def largest_difference(a: Law, b: Law) -> float:
    """The largest difference of any sequence's probability under two laws."""
    return max(abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in a.keys() | b.keys())


def assert_same_law(a: Law, b: Law, tolerance: float = ROUNDING) -> None:
    """Raise AssertionError if any sequence's probability differs by more.

    `a` is the law under test, `b` what it should be; the message shows the sequences
    that `a` produces too often or too rarely, the worst first.
    """
    difference = largest_difference(a, b)
    if not difference <= tolerance:
        raise AssertionError(
            f"the laws differ by up to {difference:.3g} (tolerance {tolerance:.3g}); "
            f"of {len(a.keys() | b.keys())} sequences the worst:\n{comparison(a, b)}"
        )


def comparison(a: Law, b: Law, n: int = N_SHOWN) -> str:
    """A table of the sequences whose probabilities differ most."""
    difference = {
        key: abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in a.keys() | b.keys()
    }
    keys = sorted(difference, key=lambda key: (-difference[key], key))[:n]
    names = [" ".join(map(str, key)) or "(empty)" for key in keys]
    width = max([len("sequence"), *map(len, names)])
    lines = [f"{'sequence':<{width}}  {'found':>10}  {'expected':>10}  difference"]
    for key, name in zip(keys, names):
        found, expected = a.get(key, 0.0), b.get(key, 0.0)
        often = "too often" if found > expected else "too rarely"
        lines.append(
            f"{name:<{width}}  {found:10.7f}  {expected:10.7f}  "
            f"{found - expected:+10.3g}  {often if found != expected else ''}".rstrip()
        )
    return "\n".join(lines)

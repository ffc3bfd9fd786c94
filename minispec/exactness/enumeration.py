"""The distribution of a function of chance: run it once down every branch.

This is done by re-execution: the code under test is handed a `Branch`, a `Randomness`
that replays recorded choices, takes the first option at every new decision, and writes
down how many options each decision had. Then the code is run again with the last
decision changed, until none is left. The options' probabilities are multiplied along a
branch and added up over the branches that lead to the same output.

Randomness from any other source raises NotEnumerable (`foreign`).
Continuous chance is left to `open_uniforms`.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.checks import whole_number
from minispec.exactness.foreign import (
    NOT_REPEATABLE,
    NotEnumerable,
    unmoved_globals,
)

Output = tuple[int, ...]  # token ids
Distribution = dict[Output, float]
Run = Callable[[Randomness], Iterable[int]]  # what is enumerated
ROUNDING = 1e-12  # what float64 may lose on the way
FLOAT32_ROUNDING = 1e-6  # what float32 may: its uniforms are multiples of 2**-24
MAX_DECISIONS = 10_000  # of one run: by then it is drawing for ever
N_REPEATED = 16  # branches that are run twice


class TooManyBranches(ValueError):
    """The run makes more decisions than one wants to enumerate."""


class Branch:
    """A `Randomness` that follows one branch of the tree of decisions."""

    def __init__(self, choices: list[int]) -> None:
        """Follow `choices` (an index per decision), then always the first option."""
        self.choices = choices
        self.widths: list[int] = []  # how many options each decision had
        self.probability = 1.0

    def sample(self, probs: Tensor) -> int:
        """Branch over every token of positive probability.

        Raises ValueError for NaN, and for what is not one row.
        """
        if probs.ndim != 1:
            raise ValueError(f"a row [V] is drawn from, got {list(probs.shape)}")
        if probs.isnan().any():
            raise ValueError("a row with NaN was drawn from: not a distribution")
        return self._decide(list(enumerate(probs.tolist())))

    def accept(self, chance: float) -> bool:
        """Branch over yes and no; NaN is rejected, as by u < chance."""
        yes = min(1.0, max(0.0, chance))  # max(0.0, nan) is 0.0
        return bool(self._decide([(1, yes), (0, 1 - yes)]))

    def _decide(self, options: list[tuple[int, float]]) -> int:
        options = [option for option in options if option[1] > 0]
        depth = len(self.widths)
        if depth == MAX_DECISIONS:
            raise TooManyBranches(
                f"more than {MAX_DECISIONS} decisions in one run: does it draw until "
                "something happens that never does?"
            )
        if not options:
            raise ValueError("a row without any positive probability was drawn from")
        if depth == len(self.choices):
            self.choices.append(0)
        if self.choices[depth] >= len(options):
            raise NotEnumerable(NOT_REPEATABLE)
        self.widths.append(len(options))
        value, probability = options[self.choices[depth]]
        self.probability *= probability
        return value


@dataclass(frozen=True)
class Enumeration:
    """A distribution, and how many branches of chance lead to it."""

    distribution: Distribution
    n_branches: int


def enumerate_outputs(run: Run, max_branches: int = 100_000) -> Enumeration:
    """What `run` can return, and how probably.

    `run` must draw only from the `Randomness` it is given. It is run once per branch,
    and down 16 branches once more. Branches of probability 0 are not visited. Raises
    TooManyBranches past `max_branches`, NotEnumerable for chance drawn elsewhere, and
    ValueError if the probabilities of all branches do not sum to 1 within 1e-12 (then
    some row was not normalised, or was rounded to float32).
    """
    whole_number("max_branches", max_branches, least=0)
    ends: list[tuple[Branch, Output]] = []
    branch: Branch | None = Branch([])
    with unmoved_globals() as check_unmoved:
        while branch is not None:
            if len(ends) == max_branches:
                raise TooManyBranches(
                    f"more than {max_branches} branches: use a smaller vocabulary, a "
                    "smaller gamma or fewer tokens, or raise max_branches"
                )
            ends.append((branch, follow(branch, run)))
            check_unmoved()
            branch = next_branch(branch)
        for branch, output in random.Random(0).choices(ends, k=N_REPEATED):
            again = Branch(branch.choices)
            if (follow(again, run), again.widths) != (output, branch.widths):
                raise NotEnumerable(NOT_REPEATABLE)
    return Enumeration(summed(ends), len(ends))


def output_distribution(run: Run, max_branches: int = 100_000) -> Distribution:
    """The distribution alone; all else as in `enumerate_outputs`."""
    return enumerate_outputs(run, max_branches).distribution


def follow(branch: Branch, run: Run) -> Output:
    """Where this branch leads. NotEnumerable if it ends too soon."""
    found = run(branch)
    try:
        output = tuple(map(operator.index, found))  # tensors differ by object
    except TypeError as error:
        raise TypeError(f"a run must return token ids, got {found!r:.80}") from error
    if len(branch.widths) < len(branch.choices):
        raise NotEnumerable(NOT_REPEATABLE)
    return output


def next_branch(branch: Branch) -> Branch | None:
    """The branch that differs in the last decision that still has an option to try."""
    choices, widths = branch.choices[: len(branch.widths)], list(branch.widths)
    while choices and choices[-1] == widths[-1] - 1:
        choices.pop()
        widths.pop()
    if not choices:
        return None
    return Branch([*choices[:-1], choices[-1] + 1])


def summed(ends: list[tuple[Branch, Output]]) -> Distribution:
    """The probability of each output; ValueError if they do not sum to 1."""
    reached: dict[Output, list[float]] = {}
    for branch, output in ends:
        reached.setdefault(output, []).append(branch.probability)
    distribution = {output: math.fsum(probs) for output, probs in reached.items()}
    total = math.fsum(distribution.values())
    if not abs(total - 1) <= ROUNDING:
        raise ValueError(
            f"the branches' probabilities sum to {total}, expected 1: every row drawn "
            "from must be normalised, in float64"
        )
    return distribution

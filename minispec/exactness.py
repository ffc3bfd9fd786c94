"""Exactness by enumeration: the whole law of an output, from the code that makes it.

A decoder is a deterministic function of its random decisions. There are finitely many
of them, each with a known probability, so it can be run once down every branch:

    law(output) = sum, over all paths of decisions that lead to it, of the product of
                  their probabilities

`output_law` does this by re-execution: the code under test is handed a `Randomness`
that replays a recorded path, takes the first branch at every new decision, and is then
run again with the last decision changed. Production code runs unaltered, with its
caches, rollbacks, EOS and budget, and two decoders are the same exactly if their laws
are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from torch import Tensor

from minispec.randomness import Randomness

Law = dict[tuple[int, ...], float]  # token sequence -> probability


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
        """Branch over every token of positive probability."""
        return self._decide(list(enumerate(probs.tolist())))

    def leading_accepts(self, ratios: Tensor) -> int:
        """Branch over the count: i accepted, then one refused; or all accepted."""
        options, reached = [], 1.0
        for i, ratio in enumerate(ratios.tolist()):
            accept = min(1.0, ratio)
            options.append((i, reached * (1 - accept)))
            reached *= accept
        return self._decide([*options, (len(ratios), reached)])

    def _decide(self, options: list[tuple[int, float]]) -> int:
        options = [option for option in options if option[1] > 0]
        depth = len(self.widths)
        if depth == len(self.choices):
            self.choices.append(0)
        self.widths.append(len(options))
        value, probability = options[self.choices[depth]]
        self.probability *= probability
        return value


def output_law(
    run: Callable[[Randomness], Iterable[int]], max_branches: int = 100_000
) -> Law:
    """The law of `run`, which must draw only from the `Randomness` it is given.

    Runs once per branch. Branches of probability 0 are not visited. Raises
    TooManyBranches past `max_branches`, and ValueError if the probabilities of all
    branches do not sum to 1 within 1e-9 (then some distribution was not normalised).
    """
    law: defaultdict[tuple[int, ...], float] = defaultdict(float)
    path: Path | None = Path([])
    n_branches = 0
    while path is not None:
        n_branches += 1
        if n_branches > max_branches:
            raise TooManyBranches(
                f"more than {max_branches} branches: use a smaller vocabulary, a "
                "smaller gamma or fewer tokens, or raise max_branches"
            )
        output = tuple(run(path))
        law[output] += path.probability
        path = next_path(path)
    total = sum(law.values())
    if abs(total - 1) > 1e-9:
        raise ValueError(f"the branches' probabilities sum to {total}, expected 1")
    return dict(law)


def next_path(path: Path) -> Path | None:
    """The path that differs in the last decision that still has a branch to try."""
    choices, widths = path.choices[: len(path.widths)], list(path.widths)
    while choices and choices[-1] == widths[-1] - 1:
        choices.pop()
        widths.pop()
    if not choices:
        return None
    return Path([*choices[:-1], choices[-1] + 1])


def largest_difference(a: Law, b: Law) -> float:
    """The largest difference of any sequence's probability under two laws."""
    return max(abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in a.keys() | b.keys())

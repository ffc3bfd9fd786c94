"""Enumeration visits all that can happen, once, and gives the exact distribution."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.strategies import DrawFn, SearchStrategy

import minispec.exactness.comparison
from minispec.core.randomness import Randomness, Seeded
from minispec.exactness import (
    FLOAT32_ROUNDING,
    Distribution,
    NotEnumerable,
    TooManyBranches,
    assert_same_distribution,
    enumerate_outputs,
    largest_difference,
    output_distribution,
)

from support.checks import agree
from support.strategies import probability_rows

COIN = torch.tensor([0.25, 0.75], dtype=torch.float64)

# ------------------------------------------------------------------- trees of chance


class Tree(NamedTuple):
    """A decision, and what is decided next after each outcome; or an end: an output."""

    row: tuple[float, ...] = ()
    accepts: bool = False  # instead of a row's token: yes and no, by row[0]
    children: tuple[Any, ...] = ()
    output: tuple[int, ...] = ()


def walk(tree: Tree, randomness: Randomness) -> tuple[int, ...]:
    """The code under enumeration: it goes where chance sends it."""
    while tree.children:
        if tree.accepts:
            choice = int(not randomness.accept(tree.row[0]))
        else:
            choice = randomness.sample(torch.tensor(tree.row, dtype=torch.float64))
        tree = tree.children[choice]
    return tree.output


def leaves(tree: Tree, prob: float = 1.0) -> list[tuple[tuple[int, ...], float]]:
    """Every end that can be reached, with its probability: an independent recursion."""
    if not tree.children:
        return [(tree.output, prob)]
    yes = min(1.0, tree.row[0])
    chances = (yes, 1 - yes) if tree.accepts else tree.row
    return [
        leaf
        for chance, child in zip(chances, tree.children, strict=True)
        if chance > 0
        for leaf in leaves(child, prob * chance)
    ]


@st.composite
def decisions(draw: DrawFn, children: SearchStrategy[Tree]) -> Tree:
    accepts = draw(st.booleans())
    n = 2 if accepts else draw(st.integers(1, 3))
    after = tuple(draw(st.lists(children, min_size=n, max_size=n)))
    if accepts:
        chance = draw(st.sampled_from([0.0, 0.25, 1.0, 2.0]) | st.floats(0, 1.5))
        return Tree((chance,), True, after)
    return Tree(tuple(draw(probability_rows(n)).tolist()), False, after)


OUTPUTS = st.lists(st.integers(0, 2), max_size=2).map(tuple)  # often the same
ENDS = OUTPUTS.map(lambda output: Tree(output=output))
TREES = st.recursive(ENDS, decisions, max_leaves=12)

# ----------------------------------------------------------------- the distribution


@given(tree=TREES)
def test_every_branch_is_visited_once_and_the_probabilities_are_summed(
    tree: Tree,
) -> None:
    """Only branches that can be; 16 of them are run once more."""
    visited: list[tuple[int, ...]] = []

    def run(randomness: Randomness) -> tuple[int, ...]:
        visited.append(walk(tree, randomness))
        return visited[-1]

    found, ends = enumerate_outputs(run), leaves(tree)
    assert found.n_branches == len(ends) == len(visited) - 16
    assert sorted(visited[: len(ends)]) == sorted(output for output, _ in ends)
    assert found.distribution.keys() == set(visited)
    for output, prob in found.distribution.items():
        expected = math.fsum(p for other, p in ends if other == output)
        agree(prob, expected, "the branches to an output are summed", tree=tree)


@given(chance=st.floats(0, 2) | st.sampled_from([-0.1, math.nan, math.inf]))
def test_accept_is_u_below_the_chance(chance: float) -> None:
    """Also for a chance above 1 or below 0, as in production: u is in [0, 1)."""
    yes = output_distribution(lambda c: [int(c.accept(chance))]).get((1,), 0.0)
    agree(yes, min(1.0, chance) if chance > 0 else 0.0, "accept", chance=chance)
    if yes in (0, 1):
        assert Seeded(0).accept(chance) == yes


def test_a_token_is_the_same_as_a_tensor_and_as_a_number() -> None:
    found = output_distribution(lambda chance: torch.tensor([chance.sample(COIN)]))
    assert found == {(0,): 0.25, (1,): 0.75}


# ---------------------------------------------------------------- what is not allowed


@given(tree=TREES)
def test_more_branches_than_allowed_are_too_many(tree: Tree) -> None:
    """Exactly as many as there are is enough; one less is not."""
    n, run = len(leaves(tree)), partial(walk, tree)
    output_distribution(run, n)
    with pytest.raises(TooManyBranches, match=f"more than {n - 1} .*gamma"):
        output_distribution(run, n - 1)


@pytest.mark.parametrize("wrong", [-1, 2.5, None])
def test_a_limit_that_is_none_is_an_error(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="max_branches must be "):
        output_distribution(lambda chance: [], wrong)


@pytest.mark.parametrize("found", [None, 3, [0.5], ["a"]])
def test_what_is_no_output_is_named(found: Any) -> None:
    with pytest.raises(TypeError, match="a run must return token ids, got "):
        output_distribution(lambda chance: found)


def test_a_run_that_draws_for_ever_is_stopped() -> None:
    def run(chance: Randomness) -> list[int]:
        for _ in range(20_000):  # for ever, to anyone who waits
            chance.sample(COIN)
        return []

    with pytest.raises(TooManyBranches, match="decisions in one run"):
        output_distribution(run)


@pytest.mark.parametrize(
    "row, said",
    [
        (torch.tensor([0.5, math.nan, 0.5]), "row with NaN"),
        (torch.tensor([0.0, 0.0]), "without any positive"),
        (torch.tensor([[0.5, 0.5]]), r"a row \[V\] is drawn from, got \[1, 2\]"),
        (torch.tensor([0.5, 0.6], dtype=torch.float64), "sum to 1.1, expected 1"),
        (torch.tensor([0.5, 0.4], dtype=torch.float64), "sum to 0.9, expected 1"),
        (torch.tensor([0.1, 0.2, 0.7]), "in float64"),  # float32: 1 + 1e-8 or so
    ],
)
def test_a_row_must_be_a_distribution(row: torch.Tensor, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        output_distribution(lambda chance: [chance.sample(row)])


# ------------------------------------------------------------- chance from elsewhere

OWN = torch.Generator(), random.Random(5), np.random.default_rng(5)
ELSEWHERE: list[tuple[str, Callable[[], object]]] = [
    ("torch", lambda: torch.rand(1) < 0.5),
    ("torch", lambda: torch.multinomial(torch.ones(2), 1)),
    ("torch", lambda: torch.empty(1).exponential_() < 1),
    ("torch", lambda: torch.manual_seed(3)),
    ("random", lambda: random.random() < 0.5),
    ("random", lambda: random.choice([0, 1])),
    ("numpy.random", lambda: np.random.rand() < 0.5),
    ("numpy.random", lambda: np.random.normal() < 0),
    ("of its own", lambda: torch.rand(999, generator=OWN[0]).argmax()),
    ("of its own", lambda: OWN[1].randrange(999)),
    ("of its own", lambda: OWN[2].integers(999)),
]


@pytest.mark.parametrize("asked", ["never", "before", "after", "on one side"])
@pytest.mark.parametrize("source, elsewhere", ELSEWHERE)
def test_chance_from_elsewhere_is_named(
    source: str, elsewhere: Callable[[], Any], asked: str
) -> None:
    """However the draw is mixed with right ones, and whatever comes of it."""

    def run(chance: Randomness) -> list[int]:
        first = chance.sample(COIN) if asked in ("before", "on one side") else 0
        if first and asked == "on one side":
            return [first]
        drawn = elsewhere()
        last = chance.sample(COIN) if asked == "after" else 0
        return [first, 0 if isinstance(drawn, torch.Generator) else int(drawn), last]

    with pytest.raises(NotEnumerable, match=source):
        output_distribution(run)


def test_a_run_that_keeps_state_is_named() -> None:
    asked: list[int] = []

    def narrower(chance: Randomness) -> list[int]:
        asked.append(0)
        n = 4 - len(asked)
        return [chance.sample(torch.full((n,), 1 / n, dtype=torch.float64))]

    def shorter(chance: Randomness) -> list[int]:
        asked.append(0)
        return [chance.sample(COIN) for _ in range(max(0, 3 - len(asked)))]

    for run in (narrower, shorter):
        asked.clear()
        with pytest.raises(NotEnumerable, match="state from run to run"):
            output_distribution(run)


# ------------------------------------------------------------------------- comparison

KEYS = [(0,), (1,), (0, 1), (1, 0)]
SOME = st.dictionaries(
    st.sampled_from(KEYS), st.sampled_from([0.0, 0.125, 0.5, 1.0]), min_size=1
)


def test_comparison_is_a_module() -> None:
    assert isinstance(minispec.exactness.comparison, ModuleType)


@given(a=SOME, b=SOME)
def test_the_largest_difference_counts_what_only_one_of_them_has(
    a: Distribution, b: Distribution
) -> None:
    expected = max(abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in KEYS)
    assert largest_difference(a, b) == largest_difference(b, a) == expected
    assert largest_difference(a, a) == 0


def test_what_is_off_is_named_the_worst_first() -> None:
    right = {(0, 1): 0.5, (1, 1): 0.25, (2,): 0.25}
    wrong = {(0, 1): 0.4, (1, 1): 0.25, (2,): 0.2, (3, 3): 0.15}
    assert_same_distribution(right, dict(right))
    with pytest.raises(AssertionError) as error:
        assert_same_distribution(wrong, right, tolerance=1e-3)
    first, header, *lines = str(error.value).splitlines()
    assert "up to 0.15 (tolerance 0.001)" in first and "of 4 sequences" in first
    assert [line.split()[:2] for line in lines[:2]] == [["3", "3"], ["0", "1"]]
    assert lines[0].endswith("too often") and lines[1].endswith("too rarely")


@given(p=st.floats(0, 0.5), gap=st.floats(1e-8, 0.4))
def test_the_tolerance_is_what_it_says(p: float, gap: float) -> None:
    """And what may be float32's rounding is called that."""
    one, other = {(0,): p, (1,): 1 - p}, {(0,): p + gap, (1,): 1 - p - gap}
    assert_same_distribution(one, other, tolerance=gap * 1.001)
    with pytest.raises(AssertionError) as error:
        assert_same_distribution(one, other, tolerance=gap * 0.999)
    assert ("FLOAT32_ROUNDING" in str(error.value)) == (
        largest_difference(one, other) <= FLOAT32_ROUNDING
    )


@given(st.permutations([(0,), (1,), (2,)]))
def test_nan_is_not_the_same_and_the_worst(keys: list[tuple[int]]) -> None:
    one = dict(zip(keys, [0.5, math.nan, 0.3]))
    with pytest.raises(AssertionError) as error:
        assert_same_distribution(one, dict(zip(keys, [0.5, 0.25, 0.25])), 0.1)
    assert str(error.value).splitlines()[2].split()[0] == str(keys[1][0])


def test_nothing_is_not_compared() -> None:
    with pytest.raises(ValueError, match="nothing to compare"):
        largest_difference({}, {})
    assert largest_difference({}, {(): 1.0}) == 1

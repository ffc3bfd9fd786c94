"""Enumeration gives the exact law, visits what can happen once, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from hypothesis.strategies import DrawFn, SearchStrategy

from minispec.randomness import Randomness

from oracles import NaiveLaw, naive_accept_law
from strategies import probability_rows

# ------------------------------------------------------------------- trees of chance


@dataclass(frozen=True)
class Tree:
    """A decision with these chances, and what is decided next after each outcome.

    No chances: the end, with the output. `ratios` is for `leading_accepts`.
    """

    probs: tuple[float, ...] = ()
    ratios: tuple[float, ...] = ()
    children: tuple[Tree, ...] = ()
    output: tuple[int, ...] = ()

    @property
    def chances(self) -> list[float]:
        if self.probs:
            return list(self.probs)
        return list(naive_accept_law(self.ratios).values())


def walk(tree: Tree, randomness: Randomness) -> tuple[int, ...]:
    """The code under enumeration: it goes where chance sends it."""
    while tree.children:
        if tree.probs:
            choice = randomness.sample(torch.tensor(tree.probs, dtype=torch.float64))
        else:
            ratios = torch.tensor(tree.ratios, dtype=torch.float64)
            choice = randomness.leading_accepts(ratios)
        tree = tree.children[choice]
    return tree.output


def leaves(tree: Tree, prob: float = 1.0) -> list[tuple[tuple[int, ...], float]]:
    """Every end that can be reached, with its probability: an independent recursion."""
    if not tree.children:
        return [(tree.output, prob)]
    return [
        leaf
        for chance, child in zip(tree.chances, tree.children, strict=True)
        if chance > 0
        for leaf in leaves(child, prob * chance)
    ]


def naive_law_of(tree: Tree) -> NaiveLaw:
    law: NaiveLaw = {}
    for output, prob in leaves(tree):
        law[output] = law.get(output, 0.0) + prob
    return law


@st.composite
def decisions(draw: DrawFn, children: SearchStrategy[Tree]) -> Tree:
    """One decision of either kind over trees drawn from `children`."""
    n = draw(st.integers(1, 3))
    below = tuple(draw(st.lists(children, min_size=n, max_size=n)))
    if draw(st.booleans()):
        return Tree(probs=tuple(draw(probability_rows(n)).tolist()), children=below)
    ratio = st.sampled_from([0.0, 0.25, 1.0, 2.0]) | st.floats(0, 1.5)
    ratios = draw(st.lists(ratio, min_size=n - 1, max_size=n - 1))
    return Tree(ratios=tuple(ratios), children=below)


OUTPUTS = st.lists(st.integers(0, 2), max_size=2).map(tuple)  # often the same
LEAVES = OUTPUTS.map(lambda output: Tree(output=output))
TREES = st.recursive(LEAVES, decisions, max_leaves=12)


# --------------------------------------------------------------------------- the law


@given(tree=TREES)
def test_the_law_is_the_sum_over_paths(impl: ModuleType, tree: Tree) -> None:
    law = impl.exactness.output_law(lambda randomness: walk(tree, randomness))
    expected = naive_law_of(tree)
    assert law.keys() == expected.keys()
    for output, prob in expected.items():
        assert law[output] == pytest.approx(prob, rel=1e-12, abs=1e-15)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)


@given(tree=TREES)
def test_every_possible_branch_is_visited_once_and_no_other(
    impl: ModuleType, tree: Tree
) -> None:
    visited: list[tuple[int, ...]] = []

    def run(randomness: Randomness) -> tuple[int, ...]:
        visited.append(walk(tree, randomness))
        return visited[-1]

    impl.exactness.output_law(run)
    assert sorted(visited) == sorted(output for output, _ in leaves(tree))


@given(ratios=st.lists(st.sampled_from([0.0, 1.0, 2.0]) | st.floats(0, 2), max_size=5))
def test_leading_accepts_has_the_law_of_a_product(
    impl: ModuleType, ratios: list[float]
) -> None:
    row = torch.tensor(ratios, dtype=torch.float64)
    law = impl.exactness.output_law(lambda chance: [chance.leading_accepts(row)])
    for count, prob in naive_accept_law(ratios).items():
        assert law.get(count, 0.0) == pytest.approx(prob, abs=1e-15)
        assert (count in law) == (prob > 0)


@given(row=probability_rows(4))
def test_one_token_has_the_law_of_its_row(impl: ModuleType, row: torch.Tensor) -> None:
    law = impl.exactness.output_law(lambda chance: [chance.sample(row)])
    assert law == {(i,): prob for i, prob in enumerate(row.tolist()) if prob > 0}


@pytest.mark.parametrize("n", [1, 5, 8])
def test_coins_give_the_binomial_law(impl: ModuleType, n: int) -> None:
    """2^n branches, n + 1 outputs."""
    coin, runs = torch.tensor([0.25, 0.75], dtype=torch.float64), []

    def heads(chance: Randomness) -> list[int]:
        runs.append(1)
        return [sum(chance.sample(coin) for _ in range(n))]

    law = impl.exactness.output_law(heads)
    assert len(runs) == 2**n
    for k in range(n + 1):
        expected = math.comb(n, k) * 0.75**k * 0.25 ** (n - k)
        assert law[(k,)] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("limit", [1, 4, 5])
def test_as_many_decisions_as_chance_wants(impl: ModuleType, limit: int) -> None:
    """Until the first 0, at most `limit`: every path has a length of its own."""
    row = torch.tensor([0.5, 0.5], dtype=torch.float64)

    def run(chance: Randomness) -> list[int]:
        text: list[int] = []
        while len(text) < limit and 0 not in text:
            text.append(chance.sample(row))
        return text

    law = impl.exactness.output_law(run)
    assert law.pop((1,) * limit) == 0.5**limit
    assert law == {(1,) * i + (0,): 0.5 ** (i + 1) for i in range(limit)}


def test_without_chance_there_is_one_branch(impl: ModuleType) -> None:
    runs: list[int] = []

    def run(chance: Randomness) -> list[int]:
        runs.append(1)
        return [4, 2]

    assert impl.exactness.output_law(run) == {(4, 2): 1.0}
    assert len(runs) == 1


def test_what_cannot_happen_is_not_run(impl: ModuleType) -> None:
    row = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)

    def run(chance: Randomness) -> list[int]:
        token = chance.sample(row)
        assert token == 1, "a branch of probability 0 was visited"
        sure = chance.leading_accepts(torch.tensor([1.0, 3.0, 0.0, 1.0]))
        assert sure == 2, "a branch of probability 0 was visited"
        return [token, sure]

    assert impl.exactness.output_law(run) == {(1, 2): 1.0}


@pytest.mark.parametrize("ratio", [math.nan, -0.1])
def test_a_ratio_that_is_no_chance_is_refused_as_in_production(
    impl: ModuleType, ratio: float
) -> None:
    """No u in [0, 1) lies below it."""
    row = torch.tensor([1.0, ratio, 1.0])
    assert impl.randomness.Seeded(0).leading_accepts(row) == 1
    assert impl.exactness.output_law(lambda c: [c.leading_accepts(row)]) == {(1,): 1.0}


# ----------------------------------------------------------------------- the refusals


def test_a_row_with_nan_has_no_law(impl: ModuleType) -> None:
    row = torch.tensor([0.5, math.nan, 0.5])
    with pytest.raises(ValueError, match="row with NaN"):
        impl.exactness.output_law(lambda chance: [chance.sample(row)])


@given(tree=TREES)
def test_more_branches_than_allowed_are_refused(impl: ModuleType, tree: Tree) -> None:
    """Exactly as many as there are is enough; one less is not."""
    n = len(leaves(tree))

    def law(max_branches: int) -> NaiveLaw:
        def run(chance: Randomness) -> tuple[int, ...]:
            return walk(tree, chance)

        return impl.exactness.output_law(run, max_branches)

    law(n)
    with pytest.raises(impl.exactness.TooManyBranches, match=f"more than {n - 1} "):
        law(n - 1)


def test_a_tree_too_large_is_left_in_time(impl: ModuleType) -> None:
    """Refused after that many runs, not after the whole of it."""
    row, runs = torch.full((10,), 0.1, dtype=torch.float64), []

    def run(chance: Randomness) -> list[int]:
        runs.append(1)
        return [chance.sample(row) for _ in range(30)]

    with pytest.raises(ValueError, match="gamma"):
        impl.exactness.output_law(run, max_branches=50)
    assert len(runs) == 50


@pytest.mark.parametrize("weights, total", [([0.5, 0.6], "1.1"), ([0.5, 0.4], "0.9")])
def test_rows_that_do_not_sum_to_1_are_refused(
    impl: ModuleType, weights: list[float], total: str
) -> None:
    row = torch.tensor(weights, dtype=torch.float64)
    with pytest.raises(ValueError, match=f"sum to {total}.*expected 1"):
        impl.exactness.output_law(lambda chance: [chance.sample(row)])


def test_an_error_of_the_code_under_test_is_not_swallowed(impl: ModuleType) -> None:
    def run(chance: Randomness) -> list[int]:
        return [1 // chance.sample(torch.tensor([0.5, 0.5]))]

    with pytest.raises(ZeroDivisionError):
        impl.exactness.output_law(run)


# ------------------------------------------------------------------------- comparison

KEYS = st.sampled_from([(0,), (1,), (0, 1), (1, 0)])
LAWS = st.dictionaries(KEYS, st.sampled_from([0.0, 0.125, 0.5, 1.0]), min_size=1)


@given(a=LAWS, b=LAWS)
def test_the_largest_difference_counts_what_only_one_law_has(
    impl: ModuleType, a: NaiveLaw, b: NaiveLaw
) -> None:
    difference: Callable[[NaiveLaw, NaiveLaw], float]
    difference = impl.exactness.largest_difference
    keys = [(0,), (1,), (0, 1), (1, 0)]
    assert difference(a, b) == max(abs(a.get(k, 0.0) - b.get(k, 0.0)) for k in keys)
    assert difference(a, b) == difference(b, a)
    assert difference(a, a) == 0

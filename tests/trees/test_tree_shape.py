"""Shapes: their value by hand, the best one against all there are, widths."""

from __future__ import annotations

import itertools
from functools import cache

import pytest

from minispec.core.analysis import expected_tokens
from minispec.trees.shape import (
    Shape, best_shape, best_shape_of, check_shape, depth_of, expected_accepted,
    from_widths, n_nodes, widths_of
)

UNEVEN = (0.5, 0.05, 0.3)  # a second child that is there for the third one's sake


@cache
def all_shapes(n: int, depth: int) -> list[Shape]:
    """Every shape of n nodes and at most `depth` levels."""
    if n == 0:
        return [()]
    return [
        (below, *rest)
        for n_first in range(1, n + 1 if depth else 0)
        for below in all_shapes(n_first - 1, depth - 1)
        for rest in all_shapes(n - n_first, depth)
    ]


def test_the_value_of_a_shape_is_the_sum_of_the_products_along_its_paths() -> None:
    shape: Shape = (((), ()), ((),))  # 0: 00 01, 1: 10
    by_hand = 0.6 + 0.6 * 0.6 + 0.6 * 0.2 + 0.2 + 0.2 * 0.6
    assert expected_accepted(shape, (0.6, 0.2)) == pytest.approx(by_hand)
    assert (n_nodes(shape), depth_of(shape), widths_of(shape)) == (5, 2, (2, 3))


@pytest.mark.parametrize("gamma", [0, 1, 4])
def test_a_chain_is_worth_what_the_analysis_of_chains_says(gamma: int) -> None:
    chain = from_widths([1] * gamma)
    value = 1 + expected_accepted(chain, (0.7,))
    assert value == pytest.approx(expected_tokens(0.7, gamma))


@pytest.mark.parametrize("acceptance", [(0.7, 0.15, 0.05), UNEVEN, (0.4, 0.4), (0.0,)])
@pytest.mark.parametrize("n, depth", [(1, 1), (4, 2), (6, 3), (6, 6), (5, 1)])
def test_no_shape_of_so_many_nodes_and_levels_is_worth_more(
    acceptance: tuple[float, ...], n: int, depth: int
) -> None:
    found = best_shape_of(acceptance, n, depth)
    assert n_nodes(found) <= n and depth_of(found) <= depth
    values = [expected_accepted(one, acceptance) for one in all_shapes(n, depth)]
    assert expected_accepted(found, acceptance) == pytest.approx(max(values), abs=1e-12)


def test_costs_decide_how_large_and_how_deep() -> None:
    """Free verification and drafts: as large as allowed. A dear draft: nothing."""
    acceptance = (0.75, 0.1)
    free = best_shape(acceptance, 0.0, n_nodes=10, depth=4)
    assert (n_nodes(free), depth_of(free)) == (10, 4)
    assert best_shape(acceptance, 0.9) == ()
    for cost, dear in itertools.product([0.05, 0.2], [0.0, 0.15]):
        found = best_shape(acceptance, cost, lambda n: 1 + dear * n, 6, 6)

        def speedup(shape: Shape) -> float:
            spent = depth_of(shape) * cost + 1 + dear * n_nodes(shape)
            return (1 + expected_accepted(shape, acceptance)) / spent

        every = [one for n in range(7) for one in all_shapes(n, 6)]
        assert speedup(found) == pytest.approx(max(map(speedup, every)))


def test_widths_go_to_the_paths_of_lowest_ranks() -> None:
    assert from_widths([1, 1]) == (((),),)
    assert from_widths([3, 2, 1]) == ((((),), ()), (), ()) != ()
    for widths in [(2, 3, 4, 2, 1), (3, 2, 1), (1, 4)]:
        assert widths_of(from_widths(widths)) == widths


@pytest.mark.parametrize("widths", [[0], [2, -1]])
def test_a_level_has_a_node_at_least(widths: list[int]) -> None:
    with pytest.raises(ValueError, match="each width must be at least 1, got"):
        from_widths(widths)


@pytest.mark.parametrize("acceptance", [(0.9, 0.2), (-0.1,), (float("nan"),)])
def test_chances_are_of_one_event_each(acceptance: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="sum to 1 at most"):
        best_shape_of(acceptance, 3, 3)


@pytest.mark.parametrize("wrong", [3, [1, 2], (1, 2), ((), [()])])
def test_widths_are_no_shape(wrong: object) -> None:
    with pytest.raises(TypeError, match="nested tuples, such as from_widths"):
        check_shape(wrong)

"""Shapes of trees, and the best one: computed from acceptance by rank and from costs.

A shape says how many children each node has, and nothing of tokens. It is nested: the
shapes of what hangs below the first child, below the second, and so on.

    ()                a leaf, or no tree at all
    (((),),)          a chain of two
    (((),), ())       two children, the first of which has a child

Assume that the child of rank r is the one accepted with chance a_r, wherever its parent
is. Then a node is reached with the product of the a_r along its path, and the accepted
drafts of a round are the sum over all nodes:

    E(shape)  =  sum over ranks r of  a_r * (1 + E(what hangs below child r))

    speed-up  =  (1 + E) / (depth * c + v(N))

with c one pass of the draft and v(N) one pass over N + 1 tokens, both over one step of
the target, as in core/analysis.py. For given N and depth, the best shape is found by
dynamic programming: split the nodes between the first child's part and the rest.

Paper: Sequoia, Chen et al. 2024 (arXiv 2402.12374), section 3.1. Left out: shapes
that adapt to the draft's confidence (see `BestTrees`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from minispec.core.analysis import flat_cost, round_speedup
from minispec.checks import whole_number

Shape = tuple["Shape", ...]


def n_nodes(shape: Shape) -> int:
    """How many nodes the tree has."""
    return sum(1 + n_nodes(below) for below in shape)


def depth_of(shape: Shape) -> int:
    """How many levels the tree has: passes of the draft."""
    return max((1 + depth_of(below) for below in shape), default=0)


def widths_of(shape: Shape) -> tuple[int, ...]:
    """How many nodes each level has."""
    widths, level = list[int](), list(shape)
    while level:
        widths.append(len(level))
        level = [child for one in level for child in one]
    return tuple(widths)


def from_widths(widths: Sequence[int]) -> Shape:
    """So many nodes on each level, on the paths that are most probably right.

    These are taken to be the paths whose ranks have the least sum; of equals, those
    that begin with the first children. Raises ValueError for a width below 1.
    """
    nodes: set[tuple[int, ...]] = set()  # each by the ranks on its path
    level: list[tuple[int, ...]] = [()]
    for width in widths:
        width = whole_number("each width", width, least=1)
        below = [(*ranks, rank) for ranks in level for rank in range(width)]
        level = sorted(below, key=lambda ranks: (sum(ranks), ranks))[:width]
        nodes.update(level)
    return _nested(nodes, ())


def _nested(nodes: set[tuple[int, ...]], at: tuple[int, ...]) -> Shape:
    below: list[Shape] = []
    while (*at, len(below)) in nodes:
        below.append(_nested(nodes, (*at, len(below))))
    return tuple(below)


def expected_accepted(shape: Shape, acceptance: Sequence[float]) -> float:
    """E(shape), as above; ranks beyond `acceptance` are never accepted."""
    return sum(
        chance * (1 + expected_accepted(below, acceptance))
        for chance, below in zip(acceptance, shape)
    )


def best_shape_of(acceptance: Sequence[float], n_nodes: int, depth: int) -> Shape:
    """The shape of the most accepted drafts: up to `n_nodes` nodes, `depth` levels.

    Raises ValueError for chances that are not at least 0 or sum to more than 1.
    """
    _check(acceptance)
    return _best(tuple(acceptance), n_nodes, depth, 0)[1]


@lru_cache(maxsize=2**17)
def _best(
    acceptance: tuple[float, ...], n: int, levels: int, rank: int
) -> tuple[float, Shape]:
    """The best n nodes for a node's children from this rank on, and below them."""
    if n == 0 or levels == 0 or rank == len(acceptance):
        return 0.0, ()
    most, found = 0.0, Shape()
    for n_first in range(1, n + 1):  # the child of this rank, and what is below it
        inside, below = _best(acceptance, n_first - 1, levels - 1, 0)
        beside, rest = _best(acceptance, n - n_first, levels, rank + 1)
        value = acceptance[rank] * (1 + inside) + beside
        if value > most:
            most, found = value, (below, *rest)
    return most, found


def best_shape(
    acceptance: Sequence[float],
    cost_ratio: float,
    verify_cost: Callable[[int], float] = flat_cost,
    n_nodes: int = 16,
    depth: int = 8,
) -> Shape:
    """The shape of the highest expected speed-up; () means: do not speculate.

    `cost_ratio` is one pass of the draft and `verify_cost(N)` a pass over N + 1 tokens,
    both over one step of the target. Of equals, the smallest wins. Raises ValueError as
    `best_shape_of` and `round_speedup` do.
    """
    highest, found = 1.0, Shape()
    for n in range(1, n_nodes + 1):
        for levels in range(1, min(n, depth) + 1):
            shape = best_shape_of(acceptance, n, levels)
            tokens = 1 + expected_accepted(shape, acceptance)
            speedup = round_speedup(tokens, levels, cost_ratio, verify_cost(n))
            if speedup > highest:
                highest, found = speedup, shape
    return found


def check_shape(shape: object) -> None:
    """Raise TypeError for anything else, such as widths."""
    if not isinstance(shape, tuple):
        raise TypeError(
            "a shape must be nested tuples, such as from_widths([3, 2, 1]), got "
            f"{shape!r:.80}"
        )
    for below in shape:
        check_shape(below)


def _check(acceptance: Sequence[float]) -> None:
    if not (all(chance >= 0 for chance in acceptance) and sum(acceptance) <= 1 + 1e-9):
        raise ValueError(
            "chances of acceptance by rank must be 0 or more and sum to 1 at most, got "
            f"{str(list(acceptance)):.80}"
        )

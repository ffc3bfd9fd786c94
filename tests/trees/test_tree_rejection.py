"""Rejection over a tree, alone: random rows, every way to choose children, enumerated.

That the whole loop is exact is proved in test_tree_distributions.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
import hypothesis.strategies as st
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.core.rejection import reject
from minispec.exactness import assert_same_distribution, output_distribution
from minispec.trees.choices import (
    Choice, most_probable, with_replacement, without_replacement
)
from minispec.trees.rejection import TreeVerdict, reject_tree
from minispec.trees.shape import Shape, depth_of
from minispec.trees.tree import Tree, path_tokens

from support.decoding import Scripted
from support.strategies import SEEDS, probability_rows

V = 3
CHOICES = {
    "with replacement": with_replacement,
    "without replacement": without_replacement,
    "most probable": most_probable,
}
SHAPES: dict[str, Shape] = {
    "a chain": (((),),),
    "siblings": ((), (), ()),
    "a tree": (((), ()), ()),
    "deep on the right": ((), ((),)),
    "nothing": (),
}
RowAfter = Callable[[list[int]], Tensor]


def row_after(seed: int, zeros: bool, path: list[int]) -> Tensor:  # -> [V]
    """A random row for each path; `zeros`: some tokens have none."""
    chance = random.Random(f"{seed} {path}")
    weights = [chance.random() + 0.01 for _ in range(V)]
    if zeros and chance.random() < 0.5:
        weights[chance.randrange(V)] = 0.0
    row = torch.tensor(weights, dtype=torch.float64)
    return row / row.sum()


def grown(
    shape: Shape, row: RowAfter, choice: Choice, randomness: Randomness
) -> Tree:
    """A tree of this shape, drawn node by node; the plainest way to do it."""
    tokens, parents = list[int](), list[int]()
    rows = [torch.empty(0, V, dtype=torch.float64)]
    level = [(-1, shape)]
    while level:
        parent, below = level.pop(0)
        if below:
            here = row(path_tokens(tokens, parents, parent))
            children, its_rows = choice(here, len(below), randomness)
            level += zip(range(len(tokens), len(tokens) + len(children)), below)
            tokens += children
            parents += [parent] * len(children)
            rows.append(its_rows)
    ids = torch.tensor(tokens, dtype=torch.long)
    return Tree(ids, tuple(parents), torch.cat(rows))


def completed(
    shape: Shape, target: RowAfter, draft: RowAfter, choice: Choice, chance: Randomness
) -> list[int]:
    """One round, then tokens from the target until there are as many as can come."""
    tree = grown(shape, draft, choice, chance)
    nodes = range(-1, len(tree.parents))
    paths = [path_tokens(tree.tokens, tree.parents, node) for node in nodes]
    target_probs = torch.stack([target(path) for path in paths])
    verdict = reject_tree(tree, target_probs, chance)
    text = [int(tree.tokens[node]) for node in verdict.path] + [verdict.next_token]
    while len(text) <= depth_of(shape):
        text.append(chance.sample(target(text)))
    return text


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("shape", SHAPES)
def test_one_tree_has_the_targets_distribution(
    shape: str, choice: str, seed: int
) -> None:
    target = partial(row_after, seed, seed == 2)
    draft = partial(row_after, seed + 10, seed > 0)
    run = partial(completed, SHAPES[shape], target, draft, CHOICES[choice])

    def plain(chance: Randomness) -> list[int]:
        text: list[int] = []
        while len(text) <= depth_of(SHAPES[shape]):
            text.append(chance.sample(target(text)))
        return text

    found, expected = output_distribution(run), output_distribution(plain)
    assert_same_distribution(found, expected)


@st.composite
def chains(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """K drafts of positive draft probability, and both models' rows."""
    K = draw(st.integers(0, 4))
    rows = [torch.empty(0, V).double()]
    draft = torch.cat(rows + [draw(probability_rows(V))[None] for _ in range(K)])
    target = torch.stack([draw(probability_rows(V)) for _ in range(K + 1)])
    possible = [(row > 0).nonzero()[:, 0].tolist() for row in draft]
    tokens = [draw(st.sampled_from(ids)) for ids in possible]
    return torch.tensor(tokens, dtype=torch.long), draft, target


@given(chains(), SEEDS)
def test_a_chain_is_judged_as_reject_judges_it(
    one: tuple[Tensor, Tensor, Tensor], seed: int
) -> None:
    """The same questions to chance in the same order, so the same verdict."""
    tokens, draft, target = one
    mine, plain = Scripted(seed=seed), Scripted(seed=seed)
    tree = Tree(tokens, tuple(range(-1, len(tokens) - 1)), draft)
    verdict, expected = reject_tree(tree, target, mine), reject(*one, plain)
    assert verdict.path == tuple(range(expected.n_accepted))
    assert verdict.next_token == expected.next_token
    assert mine.chances == plain.chances
    assert [row.tolist() for row in mine.rows] == [row.tolist() for row in plain.rows]


def test_children_are_tried_in_their_order_and_from_what_is_left() -> None:
    """Node 0 is rejected, node 1 accepted, its child 2 rejected; then a draw."""
    target = torch.tensor([[0.2, 0.5, 0.3], [1.0, 0, 0], [0.1, 0.6, 0.3], [0, 0, 1.0]])
    draft = torch.tensor([[0.6, 0.2, 0.2], [0, 0.5, 0.5], [0.2, 0.2, 0.6]])
    tree = Tree(torch.tensor([0, 1, 2]), (-1, -1, 1), draft)
    chance = Scripted(tokens=[1], accepts=[False, True, False])
    assert reject_tree(tree, target, chance) == TreeVerdict((1,), 1)
    # left after node 0: 0, 0.3, 0.1; after node 2: 0, 0.4, 0
    expected = [0.2 / 0.6, 0.75 / 0.5, 0.3 / 0.6]
    assert chance.chances == pytest.approx(expected, abs=1e-6)
    assert chance.rows[0].tolist() == pytest.approx([0, 1, 0], abs=1e-6)

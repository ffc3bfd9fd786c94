"""Rejection over a tree, alone: random rows, every way to choose children, enumerated.

That the whole loop is exact is proved in test_tree_distributions.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
import hypothesis.strategies as st
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.core.rejection import reject
from minispec.exactness import output_distribution
from minispec.trees.choices import (
    Choice, most_probable, with_replacement, without_replacement
)
from minispec.trees.rejection import TreeVerdict, reject_tree
from minispec.trees.shape import Shape, depth_of
from minispec.trees.tree import Tree, children, path_tokens

from support.checks import agree, same_odds
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


def chances(asked: list[float]) -> Tensor:
    """What chance was asked; a ratio above 1 may or may not be cut."""
    return torch.tensor(asked, dtype=torch.float64).clamp(max=1)


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


@pytest.mark.exercise15
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("shape", SHAPES)
def test_one_tree_has_the_targets_distribution(shape: str, choice: str) -> None:
    """What the tree does not decide is drawn from the target."""
    for seed in range(3):
        target = partial(row_after, seed, seed == 2)
        draft = partial(row_after, seed + 10, seed > 0)
        run = partial(completed, SHAPES[shape], target, draft, CHOICES[choice])

        def plain(chance: Randomness) -> list[int]:
            text: list[int] = []
            while len(text) <= depth_of(SHAPES[shape]):
                text.append(chance.sample(target(text)))
            return text

        broke = "A text comes out more or less often than the target writes it."
        what = {"tree": f"{shape}, children {choice}", "seed": seed}
        same_odds(output_distribution(run), output_distribution(plain), broke, **what)


@st.composite
def judged(draw: st.DrawFn) -> tuple[Tree, Tensor, list[bool]]:
    """A tree of up to five nodes, the target's rows, and a verdict on each node."""
    N = draw(st.integers(0, 5))
    parents = tuple(draw(st.integers(-1, node - 1)) for node in range(N))
    rows = [draw(probability_rows(V)) for _ in range(N)]
    possible = [(row > 0).nonzero()[:, 0].tolist() for row in rows]
    ids = [draw(st.sampled_from(tokens)) for tokens in possible]
    target = torch.stack([draw(probability_rows(V)) for _ in range(N + 1)])
    draft = torch.stack([*rows, target[0]])[:N]
    accepts = draw(st.lists(st.booleans(), min_size=N, max_size=N))
    return Tree(torch.tensor(ids, dtype=torch.long), parents, draft), target, accepts


@pytest.mark.exercise15
@settings(max_examples=100)
@given(judged(), st.integers(0, V - 1))
def test_each_child_is_one_more_try_from_what_is_left(
    one: tuple[Tree, Tensor, list[bool]], extra: int
) -> None:
    """Step by step: from the prefix down, at each node its children in their order."""
    tree, target, accepts = one
    node, path, asked, left = -1, [], [], list(accepts)
    wanted, untried = target[0].tolist(), children(tree.parents)[-1]
    while untried:
        child, *untried = untried
        row, token = tree.draft_probs[child].tolist(), int(tree.tokens[child])
        asked.append(wanted[token] / row[token])
        if left.pop(0):
            node, wanted = child, target[child + 1].tolist()
            path, untried = [*path, node], children(tree.parents)[node]
        else:
            excess = [max(0.0, w - r) for w, r in zip(wanted, row)]
            if sum(excess) > 0:
                wanted = [share / sum(excess) for share in excess]
    chance, draft = Scripted([extra], accepts), tree.draft_probs
    copies = draft.clone(), target.clone()
    verdict = reject_tree(tree, target, chance)
    what: Any = {"parents": tree.parents, "tokens": tree.tokens, "accepts": accepts}
    what |= {"draft_probs": copies[0], "target_probs": copies[1]}
    broke = "A child is tried out of turn, or not with what is left / its draft_probs."
    agree(chances(chance.chances), chances(asked), broke, 1e-9, **what)
    agree(verdict.path, tuple(path), "Another path was accepted (a tuple).", **what)
    agree(len(chance.rows), 1, "One token follows the path.", **what)
    broke = "The last token is not drawn from what is left at the end of the path."
    expected = torch.tensor(wanted, dtype=torch.float64)
    agree(chance.rows[0], expected, broke, 1e-9, **what)
    agree(verdict.next_token, extra, "next_token is not the token drawn.", **what)
    broke = "The rows handed in were changed."
    agree(draft, copies[0], broke, tolerance=0)
    agree(target, copies[1], broke, tolerance=0)


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


@pytest.mark.exercise15
@given(chains(), SEEDS)
def test_a_chain_is_judged_as_reject_judges_it(
    one: tuple[Tensor, Tensor, Tensor], seed: int
) -> None:
    """The same questions to chance in the same order, so the same verdict."""
    tokens, draft, target = one
    mine, plain = Scripted(seed=seed), Scripted(seed=seed)
    tree = Tree(tokens, tuple(range(-1, len(tokens) - 1)), draft)
    verdict, expected = reject_tree(tree, target, mine), reject(*one, plain)
    what = {"tokens": tokens, "draft_probs": draft, "target_probs": target}
    chain = tuple(range(expected.n_accepted)), expected.next_token
    broke = "A tree that is a chain is not judged as `reject` judges the chain."
    agree((tuple(verdict.path), verdict.next_token), chain, broke, **what)
    broke = "Chance was asked something else than by `reject`."
    agree(chances(mine.chances), chances(plain.chances), broke, **what)


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

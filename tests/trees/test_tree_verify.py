"""Verification of a tree: each node's row and cached row are those of its own path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from minispec import Sampling
from minispec.trees.tree import Tree, children, depths, path, tree_mask
from minispec.trees.verify import keep_path, positions_and_mask, verify_tree

from support.checks import agree
from support.decoding import (
    Situation, assert_holds, next_row, prefilled, situations, spy_on_feeding, tiny
)

DRAWN = (-1, -1, 0, 0, 1, 2)  # the tree that tree.py draws
exercise = pytest.mark.exercise14
PARENTS = st.lists(st.integers(0, 5), max_size=6).map(
    lambda picks: tuple(pick % (node + 1) - 1 for node, pick in enumerate(picks))
)


# ------------------------------------------------------------ which nodes, and where


def looks_at(parents: Sequence[int], node: int) -> set[int]:
    """The node and its ancestors, by climbing."""
    seen = {node}
    while parents[node] >= 0:
        node = parents[node]
        seen.add(node)
    return seen


def opened(seen: list[list[bool]], n_columns: int) -> Tensor:  # -> [R, C]
    """0 where it is true, -inf elsewhere."""
    is_open = torch.tensor(seen, dtype=torch.bool).reshape(len(seen), n_columns)
    return torch.zeros(is_open.shape).masked_fill(~is_open, -torch.inf)


@exercise
@given(PARENTS.filter(len), st.data())
def test_a_node_looks_at_its_ancestors_and_itself(
    parents: Any, data: st.DataObject
) -> None:
    """Never at a sibling, a cousin or a child: they are other texts."""
    nodes = [*range(len(parents))]
    found = tree_mask(parents, nodes, nodes)
    seen = [[other in looks_at(parents, node) for other in nodes] for node in nodes]
    broke = "Row n is not open (0) exactly at node n's ancestors and itself."
    agree(found, opened(seen, len(nodes)), broke, parents=parents)
    picks = st.lists(st.sampled_from(nodes), min_size=1, unique=True)
    some, others = data.draw(picks, "nodes"), data.draw(picks, "others")
    seen = [[other in looks_at(parents, node) for other in others] for node in some]
    broke = "Rows are `nodes` and columns `others`, in the order given."
    found = tree_mask(parents, some, others)
    what = {"parents": parents, "nodes": some, "others": others}
    agree(found, opened(seen, len(others)), broke, **what)


@exercise
@given(PARENTS)
def test_the_depth_of_a_node_is_the_length_of_its_path(parents: Any) -> None:
    expected = [len(looks_at(parents, node)) for node in range(len(parents))]
    broke = "A child of the prefix (-1) has depth 1, any other its parent's and 1."
    agree([*depths(parents)], expected, broke, parents=parents)


@exercise
@given(PARENTS, st.integers(1, 4), st.data())
def test_siblings_stand_at_one_position_and_see_the_prefix_and_their_path(
    parents: Any, n: int, data: st.DataObject
) -> None:
    """Fed are the prefix's tokens from S on, and then the nodes."""
    S, N = data.draw(st.integers(0, n - 1), "S"), len(parents)
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]), "like")
    like = torch.zeros(1, dtype=dtype)
    positions, mask = positions_and_mask(parents, S, n, like)
    what = {"parents": parents, "S": S, "n": n}
    paths = [looks_at(parents, node) for node in range(N)]
    expected = torch.tensor([*range(S, n), *(n - 1 + len(path) for path in paths)])
    broke = "Token i of the prefix stands at i, a node of depth d at n - 1 + d."
    agree(positions, expected, broke, **what)
    agree(positions.dtype, torch.int64, "Positions are int64.", **what)
    seen = [[other <= i for other in range(n + N)] for i in range(S, n)]
    seen += [[o < n or o - n in path for o in range(n + N)] for path in paths]
    if mask is None:  # it stands for the causal one
        mask = opened([[o <= i for o in range(n + N)] for i in range(S, n + N)], n + N)
        mask = mask.to(dtype)
    broke = "A node sees the prefix and its path; a token of the prefix, the past."
    agree(mask, opened(seen, n + N), broke, **what)
    agree(mask.dtype, dtype, "The mask has the type of `like`.", **what)


@st.composite
def trees(draw: st.DrawFn, V: int, depth: int) -> Tree:
    """Up to seven nodes on up to `depth` levels, siblings perhaps equal."""
    parents: list[int] = []
    for node in range(draw(st.integers(0, 7)) if depth else 0):
        fits = [-1, *(i for i in range(node) if len(looks_at(parents, i)) < depth)]
        parents.append(draw(st.sampled_from(fits)))
    ids = [draw(st.integers(0, V - 1)) for _ in parents]
    return Tree.certain(torch.tensor(ids, dtype=torch.long), tuple(parents), V)


# ----------------------------------------------------------------- the pass itself


@exercise
@settings(max_examples=60)
@given(situations(n_positions=12), st.data())
def test_each_row_is_the_targets_own_after_the_path(
    one: Situation, data: st.DataObject
) -> None:
    """Whatever was cached, with penalties by path, up to the context's end; and the
    cache holds a kept path as if the text had been fed."""
    model, prefix, seen, sampling = one
    n, text = len(prefix), prefix.tolist()
    tree = data.draw(trees(model.config.vocab_size, 12 - n))
    cache, drafts = model.new_cache(12 + 7), tree.tokens.tolist()
    if seen:
        model(prefix[None, :seen], cache)
    rows = verify_tree(model, cache, prefix, tree, sampling)
    nodes = range(-1, len(drafts))
    paths = [[drafts[i] for i in path(tree.parents, node)] for node in nodes]
    own = [next_row(model, sampling, text + below) for below in paths]
    what: Any = {"prefix": text, "drafts": drafts, "parents": tree.parents, "S": seen}
    broke = "Row i + 1 is not the target's own after the prefix and the path to node i."
    agree(rows, torch.stack(own), broke, **what)
    agree(cache.length, n + len(drafts), "The cache holds prefix and nodes.", **what)
    last = data.draw(st.sampled_from(nodes))
    keep_path(cache, n, path(tree.parents, last))
    assert_holds(cache, model, text + paths[last + 1])


def test_a_tree_takes_one_pass_of_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    model, prefix = tiny(), torch.tensor([2, 1, 3])
    cache = prefilled(model, prefix[:1])
    fed = spy_on_feeding(monkeypatch, model)
    scored = spy_on_feeding(monkeypatch, model, "head")
    tree = Tree.certain(torch.tensor([0, 1, 2]), (-1, -1, 0), 4)
    verify_tree(model, cache, prefix, tree, Sampling())
    assert (fed, scored) == ([2 + 3], [3 + 1])


def test_the_tree_that_is_drawn() -> None:
    assert depths(DRAWN) == [1, 1, 2, 2, 2, 3]
    below = {-1: [0, 1], 0: [2, 3], 1: [4], 2: [5], 3: [], 4: [], 5: []}
    assert children(DRAWN) == below
    assert [path(DRAWN, node) for node in (-1, 1, 5)] == [[], [1], [0, 2, 5]]
    seen = (tree_mask(DRAWN, [3, 5], range(6)) == 0).tolist()
    assert seen == [[i in (0, 3) for i in range(6)], [i in (0, 2, 5) for i in range(6)]]

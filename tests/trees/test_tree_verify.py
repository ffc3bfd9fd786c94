"""Verification of a tree: each node's row and cached row are those of its own path."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from minispec import Sampling
from minispec.trees.tree import Tree, children, depths, path, tree_mask
from minispec.trees.verify import keep_path, verify_tree

from support.decoding import (
    Situation, assert_holds, next_row, prefilled, same, situations, spy_on_feeding,
    tiny,
)

DRAWN = (-1, -1, 0, 0, 1, 2)  # the tree that tree.py draws


@st.composite
def trees(draw: st.DrawFn, V: int, depth: int) -> Tree:
    """Up to seven nodes on up to `depth` levels, siblings perhaps equal."""
    parents: list[int] = []
    for node in range(draw(st.integers(0, 7)) if depth else 0):
        fits = [-1, *(i for i, d in enumerate(depths(tuple(parents))) if d < depth)]
        parents.append(draw(st.sampled_from(fits)))
    ids = [draw(st.integers(0, V - 1)) for _ in parents]
    return Tree.certain(torch.tensor(ids, dtype=torch.long), tuple(parents), V)


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
    same(rows, torch.stack(own))
    assert cache.length == n + len(drafts)
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

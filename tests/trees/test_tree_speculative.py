"""A round with a tree: what is committed, kept in the caches, counted and checked."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from minispec import Generation, Request, Sampling, Seeded
from minispec.core.autoregressive import generate_alone
from minispec.core.text import Text
from minispec.trees.drafters import BestTrees, FixedTrees
from minispec.trees.rounds import TreeRound, acceptance_by_rank
from minispec.trees.shape import Shape
from minispec.trees.speculative import generate_with_trees, tree_round, tree_rounds
from minispec.trees.tree import Tree, TreeDrafter

from support.decoding import (
    Scripted, assert_holds, next_row, poison, same, spy_on_caches, tiny
)

V = 4
PROMPT = torch.tensor([2, 1, 2])
PARENTS = (-1, -1, 1, 1, 3)
SHAPE: Shape = (((), ()), (((),),), ())


class Given(TreeDrafter):
    """Proposes the same tree, whatever it is asked for."""

    def __init__(self, tokens: list[int], parents: Any, n_nodes: int = 9) -> None:
        ids = torch.tensor(tokens, dtype=torch.long)
        self.tree, self.n_nodes = Tree.certain(ids, parents, V), n_nodes
        self.lengths: list[int] = []

    def propose_tree(self, prefix: Tensor, depth: int, randomness: Any) -> Tree:
        return self.tree

    def rollback(self, length: int) -> None:
        self.lengths.append(length)


@pytest.mark.parametrize("seen", [0, 2])
@pytest.mark.parametrize(
    "accepts, path, judged, extra",
    [
        ([False, False], (), 1, "resampled"),
        ([True], (0,), 1, "bonus"),
        ([False, True, False, False], (1,), 2, "resampled"),
        ([False, True, True], (1, 2), 2, "bonus"),
        ([False, True, False, True, False], (1, 3), 3, "resampled"),
        ([False, True, False, True, True], (1, 3, 4), 3, "bonus"),
    ],
)
def test_a_round_for_every_end_of_the_path(
    accepts: list[bool], path: tuple[int, ...], judged: int, extra: str, seen: int
) -> None:
    """Committed, reported; and the cache holds the path, in order, and no more."""
    target, drafter = tiny(V, 1, n_layer=2), Given([0, 1, 2, 3, 0], PARENTS)
    text = Text(Request(PROMPT, 20), target, target.new_cache(24))
    if seen:
        target(PROMPT[None, :seen], text.cache)
    poison(text.cache)
    done = tree_round(target, drafter, text, Scripted(accepts=accepts))
    kept = tuple(drafter.tree.tokens[list(path)].tolist())
    assert done.committed[:-1] == kept and done.path == path
    assert (done.n_accepted, done.judged, done.extra) == (len(path), judged, extra)
    assert (done.tokens, done.parents, done.depth) == ((0, 1, 2, 3, 0), PARENTS, 3)
    committed = [*PROMPT.tolist(), *done.committed]
    assert text.prefix.tolist() == committed
    assert text.cache.length == len(committed) - 1 == drafter.lengths[0]
    assert_holds(text.cache, target, committed)
    assert done.rows is not None
    same(done.rows.target_probs[0], next_row(target, Sampling(), PROMPT.tolist()))


def test_an_eos_inside_the_tree_ends_the_text() -> None:
    target, drafter = tiny(V, 1), Given([0, 1, 2, 3, 0], PARENTS)
    request = Request(PROMPT, 20, Sampling(eos_ids=(3,)))
    text = Text(request, target, target.new_cache(24))
    chance = Scripted(accepts=[False, True, False, True, True])
    done = tree_round(target, drafter, text, chance)
    assert (done.committed, done.finish_reason) == ((1, 3), "eos")
    assert (done.path, done.n_accepted, done.judged) == ((1, 3), 2, 2)
    assert done.extra is None


@pytest.mark.parametrize("kind", ["fixed", "best"])
def test_both_caches_hold_the_text_after_every_round(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the end of the context, in caches that begin as NaN."""
    target, model = tiny(V, 1, 16, n_layer=2), tiny(V, 7, 16)
    caches = spy_on_caches(monkeypatch, target, model)
    fixed, best = FixedTrees(model, SHAPE), BestTrees(model, 5, Sampling(), 4)
    drafter = fixed if kind == "fixed" else best
    text = PROMPT.tolist()
    for done in tree_rounds(target, drafter, Request(PROMPT, 99), Seeded(5)):
        text += done.committed
        assert caches[0].length == len(text) - 1
        for cache, owner in zip(caches, (target, model)):
            assert_holds(cache, owner, text[:-1])
    assert len(text) == 17 and done.finish_reason == "context"


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_coupled_trees_write_the_text_of_their_seed(temperature: float) -> None:
    """Each node's noise is that of its own position, not of its slot."""
    target, model = tiny(V, 1, 24, n_layer=2), tiny(V, 7)
    for seed in range(10):
        sampling = Sampling(temperature, noise_seed=seed)
        request = Request(PROMPT, 18, sampling)
        alone = generate_alone(target, request, Seeded(0)).tokens
        for drafter in (FixedTrees(model, SHAPE, Sampling()), BestTrees(model, 6)):
            done = generate_with_trees(target, drafter, request, Seeded(1))
            assert done.tokens == alone


def test_a_decode_counts_by_depth() -> None:
    """Rounds with a path of 2, with none, without a tree, and up to a leaf."""
    rounds = (
        TreeRound((0, 1, 2, 3, 0), 2, (1, 3, 2), None, None, PARENTS, (1, 3)),
        TreeRound((0, 1, 2, 3, 0), 0, (2,), None, None, PARENTS, ()),
        TreeRound((), 0, (1,), None),
        TreeRound((0, 1), 1, (1, 3), None, None, (-1, -1), (1,)),
    )
    done = Generation(rounds)
    assert (done.drafted, done.accepted, done.judged) == (12, 3, 5)
    assert done.acceptance_by_position == (2 / 3, 1 / 3, 0)
    # rank 0: nodes 0, 2, 4, 0, 0 tried, none accepted; rank 1: 1, 3, (none), 1, 1
    assert acceptance_by_rank(rounds) == (0, 3 / 4)
    assert [one.extra for one in rounds[1:]] == ["resampled", "plain", "bonus"]


@pytest.mark.parametrize(
    "drafter, says",
    [
        (Given([0, 1], (-1,)), "2 nodes needs as many parents"),
        (Given([0, 1], (1, -1)), r"an earlier node or -1 .* got \(1, -1\)"),
        (Given([0, 1], (-2, 0)), "an earlier node or -1"),
        (Given([0, 1, 1], (-1, 0, 1)), "asked for 2 levels at most and gave 3"),
        (Given([0, 1], (-1, -1), n_nodes=1), "asked for 1 tokens at most and gave 2"),
        (Given([0, 1], (-1, -1), n_nodes=-1), "n_nodes must be at least 0, got -1"),
    ],
)
def test_what_is_no_tree_never_reaches_the_target(
    drafter: TreeDrafter, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        generate_with_trees(tiny(V), drafter, Request(PROMPT, 3), Seeded(0))


def test_a_drafter_of_chains_is_told_what_it_lacks() -> None:
    from minispec import ModelDrafter

    wrong: Any = ModelDrafter(tiny(V))
    with pytest.raises(TypeError, match="needs begin, propose_tree, rollback"):
        generate_with_trees(tiny(V), wrong, Request(PROMPT, 3), Seeded(0))


def test_a_drafter_serves_one_text_at_a_time() -> None:
    drafter = FixedTrees(tiny(V, 7), SHAPE)
    first = tree_rounds(tiny(V), drafter, Request(PROMPT, 9), Seeded(0))
    next(first)
    next(tree_rounds(tiny(V), drafter, Request(PROMPT, 9), Seeded(0)))
    with pytest.raises(ValueError, match="begun another text"):
        next(first)

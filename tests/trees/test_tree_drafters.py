"""Drafters of trees: the rows they declare, their passes, what they remember."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from minispec import Sampling, Seeded
from minispec.trees.choices import child_rows
from minispec.trees.drafters import BestTrees, FixedTrees, ModelTrees
from minispec.trees.ngram import NgramTrees
from minispec.trees.shape import Shape, from_widths
from minispec.trees.tree import Tree, depths, path_tokens

from support.decoding import assert_holds, next_row, poison, same, spy_on_feeding, tiny

V = 4
PROMPT = torch.tensor([2, 1, 2, 0])
UNEVEN: Shape = (((), ((),)), (((),),), ())
LOOKING_BACK = Sampling(0.8, repetition_penalty=1.7, min_length=6, eos_ids=(3,))


def begun(drafter: ModelTrees) -> ModelTrees:
    """In a text with room for more, every slot of its cache NaN."""
    drafter.begin(tiny(V).new_cache())
    poison(drafter.cache)
    return drafter


def elder_siblings(tree: Tree, node: int) -> list[int]:
    parent = tree.parents[node]
    return [i for i in range(node) if tree.parents[i] == parent]


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.6, 3), LOOKING_BACK])
def test_each_row_is_the_drafts_own_without_the_elder_siblings(
    sampling: Sampling
) -> None:
    """Each by a pass of its own over its own path; and the cache holds the prefix."""
    drafter = begun(FixedTrees(tiny(V, 7), UNEVEN, sampling))
    tree = drafter.propose_tree(PROMPT, 9, Seeded(3))
    assert tree.parents[:3] == (-1, -1, -1) and max(depths(tree.parents)) == 3
    for node, parent in enumerate(tree.parents):
        above = path_tokens(tree.tokens, tree.parents, parent)
        row = next_row(drafter.model, sampling, [*PROMPT.tolist(), *above])
        row[tree.tokens[elder_siblings(tree, node)]] = 0
        same(tree.draft_probs[node], row / row.sum())
    assert drafter.cache.length == len(PROMPT)
    assert_holds(drafter.cache, drafter.model, PROMPT.tolist())


def test_a_tree_takes_one_pass_for_each_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the nodes that have children; the first of what the cache has not seen."""
    drafter = begun(FixedTrees(tiny(V, 7), UNEVEN))
    fed = spy_on_feeding(monkeypatch, drafter.model)
    scored = spy_on_feeding(monkeypatch, drafter.model, "head")
    drafter.propose_tree(PROMPT, 9, Seeded(0))
    drafter.rollback(3)
    drafter.propose_tree(PROMPT, 2, Seeded(0))
    assert fed == [4, 2, 2, 1, 2]
    assert scored == [1, 2, 2, 1, 2]


@torch.no_grad()
def child_row(drafter: ModelTrees, prefix: Sequence[int]) -> Tensor:  # -> [V]
    """What children are taken from: one sequence, no cache, one row."""
    ids = torch.tensor([list(prefix)])
    return child_rows(drafter.model(ids)[0, -1:], drafter.sampling, ids[0])[0]


def best_by_search(
    drafter: BestTrees, prefix: Sequence[int], depth: int
) -> list[tuple[float, list[int]]]:
    """The N most probable paths, the most probable first, one at a time from a heap."""
    found: list[tuple[float, list[int]]] = []
    heap: list[tuple[float, list[int]]] = [(-1.0, [])]
    while heap and len(found) <= drafter.n_nodes:
        chance, path = heapq.heappop(heap)
        found.append((-chance, path))
        if len(path) < depth:
            row = child_row(drafter, [*prefix, *path])
            for token, probability in enumerate(row.tolist()):
                if probability:
                    heapq.heappush(heap, (chance * probability, [*path, token]))
    return found[1:]


RANKED = [Sampling(), Sampling(0), Sampling(0.5, top_k=2), Sampling(noise_seed=5)]


@pytest.mark.parametrize("sampling", RANKED)
@pytest.mark.parametrize("n_nodes, depth", [(1, 3), (5, 1), (7, 3), (12, 4), (30, 2)])
def test_the_best_tree_has_the_most_probable_paths(
    n_nodes: int, depth: int, sampling: Sampling
) -> None:
    drafter = BestTrees(tiny(V, 7), n_nodes, sampling, depth=4)
    begun(drafter)
    tree = drafter.propose_tree(PROMPT, depth, Seeded(0))
    nodes = range(len(tree.parents))
    paths = [path_tokens(tree.tokens, tree.parents, node) for node in nodes]
    expected = best_by_search(drafter, PROMPT.tolist(), depth)
    assert sorted(paths) == sorted(path for _, path in expected)
    rank = {tuple(path): i for i, (_, path) in enumerate(expected)}
    for node in nodes:  # siblings: the more probable first
        elder = [rank[tuple(paths[i])] for i in elder_siblings(tree, node)]
        assert all(i < rank[tuple(paths[node])] for i in elder)
    assert tree.draft_probs.tolist() == torch.eye(V)[tree.tokens].tolist()
    assert_holds(drafter.cache, drafter.model, PROMPT.tolist())


def test_a_greedy_target_gets_the_most_probable_children() -> None:
    drafter = begun(FixedTrees(tiny(V, 7), from_widths([3]), Sampling(0, top_k=1)))
    tree = drafter.propose_tree(PROMPT, 9, Seeded(0))
    row = next_row(drafter.model, Sampling(), PROMPT.tolist())
    assert tree.tokens.tolist() == row.topk(3).indices.tolist()
    assert tree.draft_probs.tolist() == torch.eye(V)[tree.tokens].tolist()


# ------------------------------------------------------------------------- by copying


def copied(prefix: list[int], n_nodes: int, depth: int) -> list[list[int]]:
    """The paths of the tree, in the order of its nodes."""
    drafter = NgramTrees(10, n_nodes, depth, longest=2)
    tree = drafter.propose_tree(torch.tensor(prefix), 9, Seeded(0))
    nodes = range(len(tree.parents))
    return [path_tokens(tree.tokens, tree.parents, node) for node in nodes]


def test_what_followed_is_merged_long_suffixes_first_then_recent_ones() -> None:
    prefix = [5, 2, 9, 1, 2, 3, 4, 1, 2, 3, 7, 1, 2, 6, 1, 2]
    first, second = [[6], [6, 1], [6, 1, 2]], [[3], [3, 7], [3, 7, 1]]
    rest = [[3, 4], [3, 4, 1], [9], [9, 1], [9, 1, 2]]  # [9] follows 2 alone
    for n_nodes in (1, 4, 8, 11):
        assert copied(prefix, n_nodes, 3) == [*first, *second, *rest][:n_nodes]
    assert copied([1, 2, 3], 4, 3) == [] == copied([1], 4, 3)


def test_the_first_path_is_the_chains() -> None:
    from minispec import NgramDrafter

    prefix = torch.tensor([1, 2, 3, 1, 2, 4, 4, 1, 2])
    chain = NgramDrafter(5).propose(prefix, 3, Seeded(0))
    tree = NgramTrees(5, 3, depth=3).propose_tree(prefix, 3, Seeded(0))
    assert tree.tokens.tolist() == chain.tokens.tolist()
    assert tree.parents == (-1, 0, 1)
    assert tree.draft_probs.tolist() == chain.draft_probs.tolist()


@pytest.mark.parametrize("wrong", [{"n_nodes": 0}, {"n_nodes": 3, "depth": 0}])
def test_sizes_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        NgramTrees(5, **wrong)
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        BestTrees(tiny(V), **wrong)

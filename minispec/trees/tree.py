"""A tree of drafts: several guesses at a position, each with guesses that continue it.

    prefix --+-- 0 --+-- 2 ---- 5         tokens       0  1  2  3  4  5    [N]
             |       `-- 3                parents     -1 -1  0  0  1  2    [N]
             `-- 1 ------ 4               depth        1  1  2  2  2  3

A chain that is rejected at its first draft is lost as a whole. A tree has a second
child in reserve, and all its nodes are verified in the same pass of the target.

The contract is that of core/draft.py with one word more: `draft_probs[i]` is the very
distribution that token i was drawn from, given its ancestors *and its earlier
siblings*. This sentence covers all ways to choose k children of a node with the row q:

    with replacement        k draws from q                       rows  q, q, q
    without replacement     what was drawn is deleted, the       rows  q, q without x1,
                            rest is normalised again                   q without x1, x2
    the k most probable     chosen, not drawn                    rows  one-hot, each

Which nodes to draft at all may depend on what was drawn before, never on what is drawn
next.

Papers: SpecInfer, Miao et al. 2023 (arXiv 2305.09781), section 3, with replacement;
without replacement, Jeon et al. 2024 (arXiv 2402.14160), and Sequoia, Chen et al. 2024
(arXiv 2402.12374), section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.model.kv_cache import KVCache

Parents = tuple[int, ...]  # [N]: parents[i] < i, and -1 for a child of the prefix


@dataclass(frozen=True)
class Tree:
    """N drafted nodes, parents before children, siblings in the order of judgement."""

    tokens: Tensor  # [N], int64
    parents: Parents  # [N]
    draft_probs: Tensor  # [N, V], float32 or wider

    @classmethod
    def certain(cls, tokens: Tensor, parents: Parents, vocab_size: int) -> Tree:
        """Nodes that were chosen, not drawn: each distribution is one-hot."""
        return cls(tokens, parents, F.one_hot(tokens, vocab_size).float())


class TreeDrafter(Protocol):
    """Anything that guesses ahead in trees. `n_nodes` is the most that it proposes.

    To write one, inherit and define `n_nodes` and `propose_tree`; a drafter with a
    state also defines `begin` and `rollback`.
    """

    n_nodes: int

    def begin(self, cache: KVCache) -> None:
        """A new text begins. `cache` is the target's, still empty."""
        return None

    def propose_tree(self, prefix: Tensor, depth: int, randomness: Randomness) -> Tree:
        """Guess what follows `prefix` [n]: a tree of at most `depth` levels.

        `depth` is 0 if the text has room for only one token more. The prefix may be
        read but not changed.
        """
        ...

    def rollback(self, length: int) -> None:
        """Keep nothing that was learned from beyond prefix[:length]."""
        return None


def children(parents: Parents) -> dict[int, list[int]]:
    """The children of each node in their order; those of the prefix are under -1."""
    below: dict[int, list[int]] = {node: [] for node in range(-1, len(parents))}
    for node, parent in enumerate(parents):
        below[parent].append(node)
    return below


def depths(parents: Parents) -> list[int]:
    """How many tokens each node is after the prefix, from 1."""
    found: list[int] = []
    for parent in parents:
        found.append(1 if parent < 0 else found[parent] + 1)
    return found


def path(parents: Sequence[int], node: int) -> list[int]:
    """The nodes from the first level down to `node`; none for -1, the prefix."""
    nodes: list[int] = []
    while node >= 0:
        nodes.append(node)
        node = parents[node]
    return nodes[::-1]


def path_tokens(
    tokens: Sequence[int] | Tensor, parents: Sequence[int], node: int
) -> list[int]:
    """The tokens from the first level down to `node`."""
    return [int(tokens[one]) for one in path(parents, node)]


def tree_mask(
    parents: Sequence[int], nodes: Sequence[int], others: Sequence[int]
) -> Tensor:  # R nodes, C others -> [R, C]
    """0 where a node may look: at its ancestors and itself; -inf everywhere else."""
    rows = []
    for node in nodes:
        seen = {*path(parents, node)}
        rows.append([0.0 if other in seen else -torch.inf for other in others])
    return torch.tensor(rows)

"""Trees from heads that guess each position for itself: Medusa's.

One pass gives a row for every position ahead, whatever stands before it. So all nodes
of a level offer the same children, the most probable tokens of that position's row, and
a tree costs no more than a chain. The shape alone decides how many; a row with fewer
possible tokens offers fewer. The children are chosen, not drawn, and `reject_tree`
keeps them exact.

Paper: Cai et al. 2024, "Medusa" (arXiv 2401.10774), section 2.1.2, whose trees are
judged by typical acceptance, which is not exact.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from minispec.core.draft import Drafter
from minispec.core.randomness import Randomness
from minispec.model.kv_cache import KVCache
from minispec.trees.choices import most_probable
from minispec.trees.shape import Shape, check_shape, n_nodes
from minispec.trees.tree import Tree, TreeDrafter


class Choosing(Drafter, Protocol):
    """A drafter that can say what it finds probable at each position."""

    vocab_size: int

    def choices(self, prefix: Tensor) -> Tensor:  # [n] -> [K, V]
        """Rows that rank tokens for the K positions after the prefix, K perhaps 0."""
        ...


class FactorisedTrees(TreeDrafter):
    """The most probable tokens of each position, as a tree of one shape."""

    def __init__(self, drafter: Choosing, shape: Shape) -> None:
        check_shape(shape)
        self.drafter, self.vocab_size = drafter, drafter.vocab_size
        self.shape, self.n_nodes = shape, n_nodes(shape)

    def begin(self, cache: KVCache) -> None:
        self.drafter.begin(cache)

    def propose_tree(self, prefix: Tensor, depth: int, randomness: Randomness) -> Tree:
        tokens, parents, level = list[int](), list[int](), [(-1, self.shape)]
        for row in self.drafter.choices(prefix)[:depth]:
            widest = max((len(below) for _, below in level), default=0)
            top, _ = most_probable(row, widest, randomness)
            frontier, level = level, []
            for parent, shape in frontier:
                for token, below in zip(top, shape):
                    level.append((len(tokens), below))
                    tokens.append(token)
                    parents.append(parent)
        ids = prefix.new_tensor(tokens)
        return Tree.certain(ids, tuple(parents), self.vocab_size)

    def rollback(self, length: int) -> None:
        self.drafter.rollback(length)

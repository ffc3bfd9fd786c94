"""Checks at the border, where a drafter of trees comes in; see core/checked.py."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from minispec.core.checked import OneText, check_proposal
from minispec.core.draft import Proposal
from minispec.core.randomness import Randomness
from minispec.checks import whole_number
from minispec.trees.tree import Tree, TreeDrafter, depths


class CheckedTrees(OneText, TreeDrafter):
    """A drafter whose trees are checked."""

    methods = ("begin", "propose_tree", "rollback")
    parent = "minispec.trees.tree.TreeDrafter"

    def __init__(self, drafter: TreeDrafter, vocab_size: int) -> None:
        """Raises TypeError for an object that lacks what a drafter of trees needs."""
        super().__init__(drafter, vocab_size)
        most: Any = getattr(drafter, "n_nodes", None)
        self.n_nodes = whole_number("a drafter's n_nodes", most, least=0)

    def propose_tree(self, prefix: Tensor, depth: int, randomness: Randomness) -> Tree:
        """The drafter's own tree. Raises ValueError as `Checked.propose` does."""
        self.turn.check()
        tree = self.drafter.propose_tree(prefix.clone(), depth, randomness)
        check_tree(tree, depth, self.n_nodes, self.vocab_size)
        return tree


def check_tree(tree: Tree, depth: int, n_nodes: int, vocab_size: int) -> None:
    """Raise ValueError for what is no tree, for one too large, and for wrong rows."""
    N, parents = len(tree.tokens), tree.parents
    check_proposal(Proposal(tree.tokens, tree.draft_probs), n_nodes, vocab_size)
    if len(parents) != N or not all(-1 <= p < node for node, p in enumerate(parents)):
        raise ValueError(
            f"a tree of {N} nodes needs as many parents, each an earlier node or -1 "
            f"for the prefix, got {str(parents):.80}"
        )
    deepest = max(depths(parents), default=0)
    if deepest > depth:
        raise ValueError(
            f"a drafter was asked for {depth} levels at most and gave {deepest}"
        )

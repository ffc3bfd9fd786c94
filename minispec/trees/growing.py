"""A tree that a draft model grows, level by level, one pass for each level.

The nodes of a level that are to have children, the *frontier*, go through the draft
together: all at the same position, each looking at the prefix, its ancestors and
itself. A tree of D levels so takes D passes, like a chain of D tokens. Nodes that
remain leaves are never fed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from minispec.core.rollback import rollback
from minispec.core.sampling import Sampling
from minispec.model.gpt2 import GPT
from minispec.model.kv_cache import KVCache
from minispec.trees.choices import child_rows
from minispec.trees.tree import Parents, path, path_tokens, tree_mask
from minispec.trees.verify import path_probs


class Growing:
    """Nodes so far, and the draft's cache, which holds the prefix and those fed."""

    def __init__(
        self, model: GPT, cache: KVCache, prefix: Tensor, sampling: Sampling
    ) -> None:
        self.model, self.cache, self.prefix = model, cache, prefix
        self.sampling = sampling
        self.tokens, self.parents, self.fed = list[int](), list[int](), list[int]()

    def add(self, parent: int, tokens: Sequence[int]) -> range:
        """New children of a node: their numbers."""
        first = len(self.tokens)
        self.tokens += tokens
        self.parents += [parent] * len(tokens)
        return range(first, len(self.tokens))

    def rows_after(self, frontier: Sequence[int]) -> Tensor:  # F nodes -> [F, V]
        """The draft's rows after the paths to nodes of one level, in one pass.

        The first frontier is [-1], the prefix.
        """
        ids, positions, mask, n = self.prefix[self.cache.length :], None, None, 1
        if -1 not in frontier:
            ids, positions, mask = self.nodes(frontier)
            n = len(frontier)
        logits = self.model(ids[None], self.cache, n, positions, mask)[0]
        paths = (path_tokens(self.tokens, self.parents, node) for node in frontier)
        return path_probs(logits, self.sampling, self.prefix, paths, child_rows)

    def nodes(self, frontier: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """What is fed for these nodes: ids [F], positions [F], the mask [F, S + F]."""
        n, self.fed = len(self.prefix), [*self.fed, *frontier]
        ids = self.prefix.new_tensor([self.tokens[node] for node in frontier])
        depth = len(path(self.parents, frontier[0]))
        weight = self.model.wte.weight
        mask = weight.new_zeros(len(frontier), n + len(self.fed))
        mask[:, n:] = tree_mask(self.parents, frontier, self.fed)
        return ids, torch.full_like(ids, n - 1 + depth), mask

    def only(self, nodes: Sequence[int]) -> tuple[list[int], Parents]:
        """Tokens and parents of these nodes alone, which include their ancestors."""
        number = {-1: -1, **{node: i for i, node in enumerate(nodes)}}
        parents = tuple(number[self.parents[node]] for node in nodes)
        return [self.tokens[node] for node in nodes], parents

    def forget(self) -> None:
        """The cache holds the prefix alone."""
        rollback(self.cache, len(self.prefix))

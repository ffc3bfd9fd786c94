"""Trees by copying: everything that followed, not only what followed last.

    ... my lord of York ... my lord of Kent ... my lord of | -+- Kent ...
                                                           `- York ...

`drafters/ngram.py` copies what came after the most recent occurrence of the longest
suffix. Here the earlier occurrences follow, then those of shorter suffixes, merged
where they begin alike, until the tree has all its nodes. Children are in the order
found, so the first is what the chain would have tried.

Paper: token trees from retrieved text, He et al. 2023, REST (arXiv 2311.08252), section
3.2, which takes the most frequent ones instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.checks import whole_number
from minispec.drafters.ngram import NgramDrafter
from minispec.trees.tree import Tree, TreeDrafter


class NgramTrees(TreeDrafter):
    """Copies from the prefix: up to `n_nodes` nodes on up to `depth` levels."""

    def __init__(
        self,
        vocab_size: int,
        n_nodes: int,
        depth: int = 8,
        longest: int = 4,
        shortest: int = 1,
    ) -> None:
        """Raises ValueError for lengths that cannot be right."""
        NgramDrafter(vocab_size, longest, shortest)  # its checks are ours
        self.vocab_size, self.longest, self.shortest = vocab_size, longest, shortest
        self.n_nodes = whole_number("n_nodes", n_nodes, least=1)
        self.depth = whole_number("depth", depth, least=1)

    def propose_tree(self, prefix: Tensor, depth: int, randomness: Randomness) -> Tree:
        tokens, parents = list[int](), list[int]()
        nodes: dict[tuple[int, int], int] = {}  # by parent and token
        length = min(depth, self.depth)
        for copied in continuations(prefix, length, self.longest, self.shortest):
            node = -1
            for token in copied[: self.n_nodes]:
                edge = node, token
                if edge not in nodes and len(tokens) < self.n_nodes:
                    nodes[edge] = len(tokens)
                    tokens.append(token)
                    parents.append(node)
                if edge not in nodes:
                    break
                node = nodes[edge]
            if len(tokens) == self.n_nodes:
                break
        return Tree.certain(prefix.new_tensor(tokens), tuple(parents), self.vocab_size)


def continuations(
    prefix: Tensor, length: int, longest: int, shortest: int
) -> Iterator[list[int]]:
    """What followed each earlier occurrence of a suffix: long suffixes first, then
    recent occurrences first."""
    text = prefix.tolist()
    for n in range(min(longest, len(text) - 1), shortest - 1, -1):
        for end in range(len(text) - 1, n - 1, -1):
            if text[end - n : end] == text[-n:]:
                yield text[end : end + length]

"""Trees from a draft model: of a fixed shape, or deep where the draft is confident.

Fixed shape: each node has as many children as the shape says, the first of them most
probably the right one. `trees/shape.py` computes good shapes.

By cumulative probability: of all possible nodes the N with the highest product of draft
probabilities along their path, so that a confident draft makes a chain and an unsure
one a bush. The tree follows from the prefix alone: its nodes are chosen, not drawn. A
node is never more probable than its parent. So the N best of all are a tree, and in
each level only those need be expanded that are among the N best so far. Use it for
greedy and coupled targets. Where the target samples, chosen nodes are accepted far less
often than drawn ones.

Left out: keeping the draft's own rows of the accepted path. They are fed again with the
first pass of the next round, which costs rows and no pass.

Papers: Sequoia, Chen et al. 2024 (arXiv 2402.12374), section 3; EAGLE-2, Li et al. 2024
(arXiv 2406.16858), section 4, which also bounds the width of a level.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.core.rollback import rollback
from minispec.checks import whole_number
from minispec.core.sampling import Sampling
from minispec.model.gpt2 import GPT
from minispec.model.kv_cache import KVCache
from minispec.trees.choices import Choice, is_certain, most_probable
from minispec.trees.choices import without_replacement
from minispec.trees.growing import Growing
from minispec.trees.shape import Shape, check_shape, n_nodes
from minispec.trees.tree import Tree, TreeDrafter


class ModelTrees(TreeDrafter):
    """What trees from a small GPT share: its cache, and how deep they may be."""

    def __init__(
        self, model: GPT, sampling: Sampling, n_nodes: int, n_fed: int
    ) -> None:
        """`n_fed` is the most nodes of one tree that the model is fed."""
        self.model, self.sampling = model, sampling
        self.vocab_size = model.config.vocab_size
        self.n_nodes, self.n_fed = n_nodes, n_fed

    def begin(self, cache: KVCache) -> None:
        longest = min(self.model.config.n_positions, cache.capacity)
        self.cache = self.model.new_cache(longest + self.n_fed)

    def rollback(self, length: int) -> None:
        rollback(self.cache, length)

    def levels(self, prefix: Tensor, depth: int) -> range:
        """`depth` levels, or as many as the draft's context has room for.

        Drafting D levels feeds the prefix and D - 1 of them.
        """
        return range(min(depth, self.model.config.n_positions - len(prefix) + 1))


class FixedTrees(ModelTrees):
    """Trees of one shape, e.g. `from_widths([3, 2, 1])`.

    Children are drawn without replacement, or by another `choice`. For a greedy or a
    coupled target they are the most probable tokens.
    """

    def __init__(
        self,
        model: GPT,
        shape: Shape,
        sampling: Sampling = Sampling(),
        choice: Choice | None = None,
    ) -> None:
        """Raises TypeError for a shape that is not of nested tuples."""
        check_shape(shape)
        super().__init__(model, sampling, n_nodes(shape), n_nodes(shape))
        chosen = is_certain(sampling)
        self.shape = shape
        self.choice = choice or (most_probable if chosen else without_replacement)

    @torch.inference_mode()
    def propose_tree(self, prefix: Tensor, depth: int, randomness: Randomness) -> Tree:
        """Grow level by level; a node whose row has too few tokens has fewer children.

        Then what would have hung below the missing ones is missing too.
        """
        tree = Growing(self.model, self.cache, prefix, self.sampling)
        drawn = [torch.empty(0, self.vocab_size, device=prefix.device)]
        level = [(-1, self.shape)]  # nodes, and the shape of what hangs below each
        for _ in self.levels(prefix, depth):
            level = [(node, below) for node, below in level if below]
            if not level:
                break
            frontier, level = level, []
            rows = tree.rows_after([node for node, _ in frontier])
            for row, (parent, shape) in zip(rows, frontier):
                children, its_rows = self.choice(row, len(shape), randomness)
                level += zip(tree.add(parent, children), shape)
                drawn.append(its_rows)
        tree.forget()
        tokens = prefix.new_tensor(tree.tokens)
        return Tree(tokens, tuple(tree.parents), torch.cat(drawn))


class BestTrees(ModelTrees):
    """The `n_nodes` nodes of the highest cumulative probability, to a given depth."""

    def __init__(
        self, model: GPT, n_nodes: int, sampling: Sampling = Sampling(), depth: int = 8
    ) -> None:
        n_nodes = whole_number("n_nodes", n_nodes, least=1)
        self.depth = whole_number("depth", depth, least=1)
        super().__init__(model, sampling, n_nodes, n_nodes * self.depth)

    @torch.inference_mode()
    def propose_tree(self, prefix: Tensor, depth: int, randomness: Randomness) -> Tree:
        """Keep the N best, expand the new ones among them, until there are none."""
        V, N = self.vocab_size, self.n_nodes
        tree = Growing(self.model, self.cache, prefix, self.sampling)
        chances, best, level = list[float](), list[int](), [-1]
        for _ in self.levels(prefix, min(depth, self.depth)):
            if not level:
                break
            rows = tree.rows_after(level).clamp(max=1)  # whatever rounding did
            so_far = [chances[node] if node >= 0 else 1.0 for node in level]
            reach = (rows * rows.new_tensor(so_far)[:, None]).flatten()
            top, first_new = reach.topk(min(N, len(reach))), len(chances)
            for chance, index in zip(top.values.tolist(), top.indices.tolist()):
                if chance > 0:
                    tree.add(level[index // V], [index % V])
                    chances.append(chance)
            # Of equals the first, so that no child comes before its parent.
            best = sorted(range(len(chances)), key=lambda node: -chances[node])[:N]
            level = [node for node in best if node >= first_new]
        tree.forget()
        tokens, parents = tree.only(sorted(best))
        return Tree.certain(prefix.new_tensor(tokens), parents, V)

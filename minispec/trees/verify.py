"""Verification of a tree: all nodes in one pass of the target.

    fed          prefix[cache.length:]            node 0   node 1   ...
    positions    where they stand                 n - 1 + depth of the node
    may look at  everything before, as always     the prefix, its ancestors, itself

Siblings stand at the same position, and each sees only the path that leads to it. So
row i + 1 is, up to rounding, what the target would have computed had it written the
path to node i itself.

The cache then holds one row for each node, in slots beyond the prefix that have nothing
to do with positions. Those of the accepted path are moved together (`keep_path`), and
they are right as they are: a key knows its position and its ancestors, not its slot. A
tree therefore needs N more slots than the text has tokens.

Paper: SpecInfer, Miao et al. 2023 (arXiv 2305.09781), section 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from minispec.core.sampling import Sampling, logits_to_probs
from minispec.model.attention import causal_mask
from minispec.model.gpt2 import GPT
from minispec.model.kv_cache import KVCache
from minispec.trees.tree import Parents, Tree, depths, path_tokens, tree_mask

Process = Callable[[Tensor, Sampling, Tensor], Tensor]  # as `logits_to_probs`


@torch.inference_mode()
def verify_tree(
    target: GPT, cache: KVCache, prefix: Tensor, tree: Tree, sampling: Sampling
) -> Tensor:  # [n], N nodes -> [N + 1, V]
    """The target's distributions after the prefix, and after the path to each node.

    The cache may hold any beginning of the prefix but not all of it; afterwards it
    holds the prefix and, in the slots after it, all nodes.
    """
    S, n, N = cache.length, len(prefix), len(tree.parents)
    ids = torch.cat([prefix[S:], tree.tokens])
    positions, mask = positions_and_mask(tree.parents, S, n, like=target.wte.weight)
    logits = target(ids[None], cache, N + 1, positions, mask)[0]
    paths = (path_tokens(tree.tokens, tree.parents, node) for node in range(-1, N))
    return path_probs(logits, sampling, prefix, paths)


def positions_and_mask(
    parents: Parents, S: int, n: int, like: Tensor
) -> tuple[Tensor, Tensor | None]:  # N parents -> [n - S + N], [n - S + N, n + N]
    """For what is fed after S cached tokens: the rest of a prefix of n, then N nodes.

    Where each token stands, and what it may look at (None: the causal mask).
    """
    N = len(parents)
    positions = torch.tensor([*range(S, n), *(n - 1 + d for d in depths(parents))])
    mask = causal_mask(n + N - S, n + N, like=like)
    if mask is not None and N:
        mask[-N:, -N:] = tree_mask(parents, range(N), range(N))
    return positions.to(like.device), mask


def path_probs(
    logits: Tensor,
    sampling: Sampling,
    prefix: Tensor,
    paths: Iterable[Sequence[int]],
    process: Process = logits_to_probs,
) -> Tensor:  # [R, V], [n], R paths of tokens -> [R, V]
    """What is drawn from after the prefix and each path.

    The rows of a chain share one history, those of a tree do not. Where the sampling
    looks back, each is therefore processed alone.
    """
    if not sampling.looks_back:
        return process(logits, sampling, prefix)
    rows = []
    for row, path in zip(logits, paths):
        history = torch.cat([prefix, prefix.new_tensor(path)])
        rows.append(process(row[None], sampling, history))
    return torch.cat(rows)


def keep_path(cache: KVCache, length: int, nodes: Sequence[int]) -> None:
    """After `length` tokens, hold only the rows of these nodes, in this order."""
    slots = torch.tensor(nodes, dtype=torch.long, device=cache.device) + length
    cache.keep(length, slots)

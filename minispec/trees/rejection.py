"""Rejection over a tree: each child of a node is one more try to keep a draft.

Stand at a node, the prefix at first, with `wanted` the target's row there. For each
child in order, with token x, drawn from the row q: accept it with min(1, wanted(x) /
q(x)) and go on from there; or else replace `wanted` by its residual, norm(max(0, wanted
- q)). If no child is accepted, draw the next token from what is left of `wanted`.

Why this is exact: core/rejection.py proves for any two rows that "accept, or else draw
from the residual" comes out as `wanted`. Its "draw from the residual" may itself be
done by rejection, with the next child as the draft: the residual is then what is
wanted. So the proof applies from the last child to the first, provided that each child
was really drawn from its row given the earlier ones, which were all rejected.

With one child at each node it is Algorithm 1, decision by decision.

Papers: SpecInfer, Miao et al. 2023 (arXiv 2305.09781), algorithm 2; with deleted and
normalised rows, Jeon et al. 2024 (arXiv 2402.14160) and Sequoia, Chen et al. 2024
(arXiv 2402.12374), algorithm 2. Left out: optimal transport over all children at once,
which would accept a little more (SpecTr, Sun et al. 2023, arXiv 2310.15141).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.core.rejection import residual
from minispec.trees.tree import Tree, children


@dataclass(frozen=True)
class TreeVerdict:
    """The nodes that were accepted, from the first level down, and the token after."""

    path: tuple[int, ...]
    next_token: int


def reject_tree(
    tree: Tree, target_probs: Tensor, randomness: Randomness
) -> TreeVerdict:  # N nodes, [N + 1, V]: the target's row after the prefix, then nodes
    """Accept children downwards until a node has none left; draw the token after it."""
    tokens, below = tree.tokens.tolist(), children(tree.parents)
    node, path, wanted = -1, list[int](), target_probs[0]
    untried = below[node]
    while untried:
        child, *untried = untried
        draft_row, token = tree.draft_probs[child], tokens[child]
        if randomness.accept((wanted[token] / draft_row[token]).item()):
            node, wanted = child, target_probs[child + 1]
            path, untried = [*path, node], below[node]
        else:
            wanted = residual(wanted, draft_row)
    return TreeVerdict(tuple(path), randomness.sample(wanted))

"""The result of a round with a tree: a `Round` that counts by depth.

`tokens` are all N nodes, and `n_accepted` is the length of the accepted path. The
statistics of a decode are by position, as for chains: a position was judged if the
accepted path reached it and had a child to try there, however many children that were.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from minispec.core.rounds import Round
from minispec.trees.tree import Parents, children, depths


@dataclass(frozen=True)
class TreeRound(Round):
    """One pass of the target over a tree of drafts."""

    parents: Parents = ()  # of each node in `tokens`
    path: Parents = ()  # the nodes that joined the text

    @property
    def depth(self) -> int:
        """How many positions the tree has guesses for."""
        return max(depths(self.parents), default=0)

    @property
    def ends_at_leaf(self) -> bool:
        """Whether no guess was left where the accepted path ends."""
        return (self.path or (-1,))[-1] not in self.parents

    @property
    def judged(self) -> int:
        """Positions at which guesses were accepted or rejected."""
        return min(self.n_accepted + (not self.ends_at_leaf), len(self.committed))

    @property
    def extra(self) -> Literal["bonus", "resampled", "plain"] | None:
        """As in `Round`: a bonus comes after a leaf."""
        if not self.tokens or len(self.committed) == self.n_accepted:
            return super().extra
        return "bonus" if self.ends_at_leaf else "resampled"


def acceptance_by_rank(rounds: Iterable[TreeRound]) -> tuple[float, ...]:
    """The chance that the child of rank 0, 1, ... of a node is the one accepted.

    Each is a share of the judged nodes that had a child of that rank; a rank that no
    tree had is not there. What `best_shape` asks for: where ranks were tried at
    different nodes their shares may sum to more than 1, and are scaled to 1.
    """
    had, accepted = list[int](), list[int]()
    for one in rounds:
        below = children(one.parents)
        for node, kept in zip([-1, *one.path], [*one.path, None][: one.judged]):
            tried = below[node]
            missing = [0] * (len(tried) - len(had))
            had, accepted = had + missing, accepted + missing
            for rank, child in enumerate(tried):
                had[rank] += 1
                accepted[rank] += child == kept
    shares = [a / h for a, h in zip(accepted, had)]
    return tuple(share / max(1.0, sum(shares)) for share in shares)

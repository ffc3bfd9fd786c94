"""What was tried at each draft, and the two rows that the odds came from.

Judges draw numbers; each gives them its own meaning. Four ways:

    one by one    a trial for each draft from the left, up to the first that fails
    together      block verification: a trial for all, then for all but the last, ...
    by a rule     no trials: the row decides (typical acceptance, top-k agreement)
    tree          a trial for each child, down the path of those that pass

At each draft that was tried, two rows say what happened: `given`, which the draft was
drawn from, and `wanted`, what was to come out there. Their overlap min(wanted, given)
is what drafting can give; what `wanted` has beyond it is resampled. Mostly `wanted` is
the target's row. Block verification wants as much of it as it still keeps
(judges/block.py), and a later sibling in a tree what the earlier ones have left over
(trees/rejection.py).

Chances and draws are those recorded. Nothing here decides anything again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from minispec.core.rejection import Judge, acceptance_ratios, residual
from minispec.core.rounds import Round
from minispec.judges.block import chances_kept, reject_block
from minispec.show.recording import Recorded, Trial
from minispec.trees.rounds import TreeRound
from minispec.trees.tree import children

Judging = Literal["one by one", "together", "by a rule", "tree"]
Kind = Literal["residual", "bonus", "plain", "target", "other"]


@dataclass(frozen=True)
class Try:
    """One draft, or block of drafts up to it, that was judged."""

    node: int  # the draft, in `Round.tokens`
    trial: Trial | None  # None: a rule decided
    passed: bool
    wanted: Tensor  # [V]
    given: Tensor  # [V]
    n_siblings: int = 0  # rejected before it, in a tree


def judging_of(one: Round, recorded: Recorded, judge: Judge) -> Judging:
    """Which of the four ways this round was judged."""
    if isinstance(one, TreeRound):
        return "tree"
    if judge is reject_block:
        return "together"
    return "one by one" if recorded.trials or not one.tokens else "by a rule"


def tries_of(one: Round, recorded: Recorded, judge: Judge) -> list[Try]:
    """What was tried, in the order it was. The round must still have its rows."""
    assert one.rows is not None
    if isinstance(one, TreeRound):
        return tree_tries(one, recorded.trials)
    K, (draft_probs, target_probs) = len(one.tokens), one.rows
    wanted, nodes = target_probs[:-1], range(K)
    if judge is reject_block:
        tokens = torch.tensor(one.tokens, device=wanted.device, dtype=torch.long)
        kept = chances_kept(acceptance_ratios(tokens, draft_probs, target_probs))
        wanted, nodes = kept[:-1, None] * wanted, nodes[::-1]
    trials: Iterable[Trial | None] = recorded.trials
    if not recorded.trials:
        trials = [None] * min(recorded.n_kept + 1, K)
    return [
        Try(
            node,
            trial,
            node < recorded.n_kept if trial is None else trial.passed,
            wanted[node],
            draft_probs[node],
        )
        for node, trial in zip(nodes, trials)
    ]


def tree_tries(one: TreeRound, trials: Iterable[Trial]) -> list[Try]:
    """The walk of `reject_tree`, led by the trials as they came out."""
    assert one.rows is not None
    draft_probs, target_probs = one.rows
    below, tries = children(one.parents), list[Try]()
    wanted, untried = target_probs[0], below[-1]
    n_siblings = 0
    for trial in trials:
        node, *untried = untried
        given = draft_probs[node]
        tries.append(Try(node, trial, trial.passed, wanted, given, n_siblings))
        if trial.passed:
            wanted, untried, n_siblings = target_probs[node + 1], below[node], 0
        else:
            wanted, n_siblings = residual(wanted, given), n_siblings + 1
    return tries


def turned_down(one: Round, tries: Sequence[Try], n_kept: int) -> Try | None:
    """The try at which drafting ended; None if nothing was left to try."""
    if isinstance(one, TreeRound):
        return tries[-1] if tries and not tries[-1].passed else None
    return next((a_try for a_try in tries if a_try.node == n_kept), None)


def kind_of(one: Round, end: Try | None, row: Tensor) -> Kind:
    """What the row [V] was that the token after the drafts was drawn from."""
    if end is None:
        return "bonus" if one.tokens else "plain"
    if torch.allclose(row, residual(end.wanted, end.given), atol=1e-6):
        return "residual"
    is_target = torch.allclose(row, end.wanted, atol=1e-6)
    return "target" if is_target else "other"

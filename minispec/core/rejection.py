"""3. Rejection sampling: why every token has the target's own distribution.

The draft drew `tokens[i]` from `draft_probs[i]`; the target would have drawn from
`target_probs[i]`. Accept the token with probability min(1, target / draft). At the
first rejection, draw from what the target wanted and the draft gave too little of, the
residual. If all are accepted, draw one more token, the bonus, from the last row.

Why the output distribution does not change. Fix one position; t and d are its two rows.
Token x comes out either because it was drafted and accepted, or because some token was
rejected and x was drawn from the residual:

    d(x) min(1, t(x) / d(x))    =  min(t(x), d(x))                    accepted
    P(rejected)                 =  1 - sum_y min(t(y), d(y))
                                =  sum_y max(0, t(y) - d(y))    (both rows sum to 1)
    P(rejected) * residual(x)   =  max(0, t(x) - d(x))                resampled
    accepted + resampled        =  t(x)

The only thing assumed of d is that the token was really drawn from it. A bad draft
costs speed, never correctness. One position after another makes the text: a position is
judged only if all before it were accepted, so both its rows are conditioned on what
really stands there, and after a resampled token the round is over.

Papers: Leviathan, Kalman and Matias 2023 (arXiv 2211.17192), algorithm 1 and appendix
A.1, where the target is p and the draft q; Chen et al. 2023 (arXiv 2302.01318),
algorithm 2, where the target is q and the draft p. So the code spells the roles out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from minispec.core.randomness import Randomness


@dataclass(frozen=True)
class Verdict:
    """What became of K drafted tokens."""

    n_accepted: int  # 0..K, never counting the extra token
    next_token: int  # the bonus if n_accepted == K, else resampled


# tokens [K], draft_probs [K, V], target_probs [K + 1, V]; `reject` is the plain one
Judge = Callable[[Tensor, Tensor, Tensor, Randomness], Verdict]


def reject(
    tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, randomness: Randomness
) -> Verdict:  # [K], [K, V], [K + 1, V]
    """Accept drafts from the left until one is rejected; draw the token after them."""
    ratios = acceptance_ratios(tokens, draft_probs, target_probs)
    for i, ratio in enumerate(ratios.tolist()):
        if not randomness.accept(ratio):
            resampled = residual(target_probs[i], draft_probs[i])
            return Verdict(i, randomness.sample(resampled))
    bonus = target_probs[-1]
    return Verdict(len(tokens), randomness.sample(bonus))


def acceptance_ratios(
    tokens: Tensor, draft_probs: Tensor, target_probs: Tensor
) -> Tensor:  # [K], [K, V], [K + 1, V] -> [K]
    """target / draft at each drafted token: it is accepted with min(1, ratio).

    The draft's probability is positive, since the token was drawn from it. The target's
    last row is for the bonus alone.
    """
    column = tokens[:, None]
    target = target_probs[:-1].gather(1, column)
    return (target / draft_probs.gather(1, column))[:, 0]


def residual(target_row: Tensor, draft_row: Tensor) -> Tensor:  # [V], [V] -> [V]
    """What the target wants beyond what the draft gave: norm(max(0, target - draft)).

    Sampling from it after a rejection restores exactly the mass that acceptance left
    out (Leviathan et al. 2023, appendix A.1).
    """
    excess = (target_row - draft_row).clamp(min=0)
    mass = excess.sum()
    # No mass: the draft is at least the target everywhere, so it exceeds a sum of 1 by
    # rounding, and rounding alone rejected. (Equal rows are never rejected: ratio 1.)
    return torch.where(mass > 0, excess / mass, target_row)

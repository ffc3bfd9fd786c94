"""3. Rejection sampling: why the text is the target's, token for token in law.

The draft drew `tokens[i]` from `draft_probs[i]`; the target would have drawn from
`target_probs[i]`. Keep the token with probability min(1, target / draft). On the first
refusal draw from what the target wanted and the draft gave too little of, the residual;
with nothing refused, draw one more token, the bonus, from the last row.

Why this changes nothing. Fix one position; t and d are its two rows. Token x comes out
either because it was drafted and kept, or because some token was refused and x drawn
from the residual:

    d(x) min(1, t(x) / d(x))  =  min(t(x), d(x))                      kept
    P(refused)                =  1 - sum_y min(t(y), d(y))
                              =  sum_y max(0, t(y) - d(y))    (both rows sum to 1)
    P(refused) * residual(x)  =  max(0, t(x) - d(x))                  replaced
    kept + replaced           =  t(x)

Nothing was assumed of d but that the token was really drawn from it. A bad draft costs
speed, never correctness. And one position after another makes the text: a position is
only judged if all before it were kept, so both its rows are conditioned on what really
stands there, and after a replacement the round is over.

Papers: Leviathan, Kalman and Matias 2023 (arXiv 2211.17192), algorithm 1 and appendix
A.1, where the target is p and the draft q; Chen et al. 2023 (arXiv 2302.01318),
algorithm 2, where the target is q and the draft p. In the code they are never letters.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from minispec.randomness import Randomness


@dataclass(frozen=True)
class Verdict:
    """What became of K drafted tokens."""

    n_accepted: int  # 0..K, never counting the extra token
    next_token: int  # the bonus where n_accepted == K, else resampled


def reject(
    tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, randomness: Randomness
) -> Verdict:  # [K], [K, V], [K + 1, V]
    """Keep the leading accepted tokens and draw the one that follows them.

    Raises ValueError where the draft gives a token it proposed no probability, and for
    draft rows of another shape than the target's, which would broadcast in silence.
    """
    if draft_probs.shape != target_probs[:-1].shape:
        raise ValueError(
            f"draft_probs must be [K, V] as the target's K rows are, "
            f"{list(target_probs[:-1].shape)}, got {list(draft_probs.shape)}"
        )
    ratios = acceptance_ratios(tokens, draft_probs, target_probs)
    n_accepted = randomness.leading_accepts(ratios)
    if n_accepted == len(tokens):
        row = target_probs[n_accepted]  # the bonus
    else:
        row = residual(target_probs[n_accepted], draft_probs[n_accepted])
    return Verdict(n_accepted, randomness.sample(row))


def acceptance_ratios(
    tokens: Tensor, draft_probs: Tensor, target_probs: Tensor
) -> Tensor:  # [K], [K, V], [K + 1, V] -> [K]
    """target / draft at each drafted token; its minimum with 1 is the chance to stay.

    K rows of the target are used; the last row is for the bonus alone.
    """
    column = tokens[:, None]
    drafted = draft_probs.gather(1, column)[:, 0]
    if (drafted <= 0).any():
        raise ValueError(
            "a drafted token has draft probability 0: draft_probs must be the very "
            "distribution the token was drawn from (one-hot for a fixed choice)"
        )
    return target_probs[:-1].gather(1, column)[:, 0] / drafted


def residual(target_row: Tensor, draft_row: Tensor) -> Tensor:  # [V], [V] -> [V]
    """Where the target wants more than the draft gave: norm(max(0, target - draft)).

    Drawing from it after a refusal puts back exactly the mass that acceptance left out
    (Leviathan et al. 2023, appendix A.1).
    """
    excess = (target_row - draft_row).clamp(min=0)
    mass = excess.sum()
    if mass == 0:  # the rows are equal and only rounding refused: either row is right
        return target_row
    return excess / mass

"""Judges that are not exact: more drafts stay, and the text is no longer the target's.

Each accepts drafts from the left, as `reject` does, but by a rule of its own:

    typical   t(x) > min(epsilon, delta exp(-H(t)))     probable enough for the target
    lenient   with chance min(1, t(x) / (lenience d(x)))
    top-k     x is among the target's k most probable tokens

After a rejection the first and the last draw from the target's row. No residual could
mend them: what they accept does not depend on how much the draft gave. They also reject
drafts that `reject` would always accept, so they can be slower and wrong at once.

What they cost is measured, not argued: `exactness/price` compares the distributions
and the tokens per round. Where the target's rows are one-hot (temperature 0, coupled
draws) each rule asks whether the draft is the target's token, and all are exact.

Papers: typical acceptance, Cai et al. 2024 (Medusa, arXiv 2401.10774), section 2.3.1;
lenience, Leviathan, Kalman and Matias 2023, appendix A.5. Left out: Medusa's rule that
the first draft always stays, because there the target itself drew it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.core.rejection import Judge, Verdict, reject
from minispec.checks import whole_number
from minispec.core.sampling import keep_top_k


def typical(epsilon: float = 0.09, delta: float = 0.3) -> Judge:
    """Accept what the target finds probable. The less sure, the lower the threshold.

    H is the row's entropy in nats. The defaults are Medusa's. Raises ValueError for
    numbers that are not positive and finite.
    """
    check_positive("epsilon", epsilon)
    check_positive("delta", delta)

    def judge(
        tokens: Tensor,
        draft_probs: Tensor,
        target_probs: Tensor,
        randomness: Randomness,
    ) -> Verdict:  # [K], [K, V], [K + 1, V]
        rows = target_probs[:-1]
        entropy = torch.special.entr(rows).sum(dim=-1)
        threshold = (delta * (-entropy).exp()).clamp(max=epsilon)
        return keep_while(at(rows, tokens) > threshold, target_probs, randomness)

    return judge


def lenient(lenience: float) -> Judge:
    """Accept with min(1, target / (lenience * draft)); 1 is `reject` itself.

    The residual is taken against the same, so no token comes out more often than
    target / lenience. Raises ValueError unless 0 < lenience <= 1.
    """
    if not 0 < lenience <= 1:
        raise ValueError(f"lenience must be above 0 and at most 1, got {lenience}")

    def judge(
        tokens: Tensor,
        draft_probs: Tensor,
        target_probs: Tensor,
        randomness: Randomness,
    ) -> Verdict:  # [K], [K, V], [K + 1, V]
        return reject(tokens, lenience * draft_probs, target_probs, randomness)

    return judge


def agree_on_top_k(k: int) -> Judge:
    """Accept what is among the target's k most probable tokens, and possible.

    Raises TypeError or ValueError unless k is a whole number of at least 1.
    """
    k = whole_number("k", k, least=1)

    def judge(
        tokens: Tensor,
        draft_probs: Tensor,
        target_probs: Tensor,
        randomness: Randomness,
    ) -> Verdict:  # [K], [K, V], [K + 1, V]
        stays = at(keep_top_k(target_probs[:-1], k), tokens) > 0
        return keep_while(stays, target_probs, randomness)

    return judge


def keep_while(
    stays: Tensor, target_probs: Tensor, randomness: Randomness
) -> Verdict:  # [K] bool, [K + 1, V]
    """Accept up to the first draft that does not stay; the target's row draws next."""
    n_accepted = int(stays.cumprod(dim=0).sum())
    return Verdict(n_accepted, randomness.sample(target_probs[n_accepted]))


def at(rows: Tensor, tokens: Tensor) -> Tensor:  # [K, V], [K] -> [K]
    """Each row's number at its token."""
    return rows.gather(1, tokens[:, None])[:, 0]


def check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be above 0 and finite, got {value}")

"""Exactness by statistics: for what can be drawn from but not enumerated.

Draw n times and compare the counts with the distribution they should have, by the
likelihood ratio:

    G = 2 sum over outcomes of observed * log(observed / expected)

If the distribution is right, G is chi-square distributed with (outcomes - 1) degrees of
freedom. If another one is drawn from, G is non-central chi-square with non-centrality
2 n KL(other || expected), which grows with n. So a test has two rates to be stated:

    false alarm   how often a right sampler is called wrong: chosen, e.g. 1e-4
    power         how often a given wrong sampler is found: computed, by choosing n

A pass means: no deviation that these n draws can show. Enumeration, where it is
possible, says more.

Reference: Wilks 1938 (how G is distributed); Cohen 1988, chapter 7 (power of such
tests). Both are limits for many draws: outcomes of fewer than 5 expected draws are
counted as one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from minispec.exactness.enumeration import FLOAT32_ROUNDING, Distribution, Output
from minispec.exactness.foreign import seeded_globals

LEAST_EXPECTED = 5  # draws of an outcome, for chi-square to describe its count


@dataclass(frozen=True)
class GTest:
    """How far counts deviate, and how probable it is by chance to deviate as far."""

    statistic: float  # G
    degrees: int  # of freedom
    p_value: float


def draw(run: Callable[[], Iterable[int]], n: int, seed: int) -> Counter[Output]:
    """The outcomes of `n` runs of a sampler that draws from the global generators.

    They are seeded, and put back afterwards.
    """
    with seeded_globals(seed):
        return Counter(tuple(map(int, run())) for _ in range(n))


def g_test(counts: Counter[Output], expected: Distribution) -> GTest:
    """Whether `counts` may come from `expected`: compare p_value to a false alarm.

    An outcome that cannot be makes p_value 0. Raises ValueError without counts.
    """
    n = sum(counts.values())
    if n < 1:
        raise ValueError("there are no counts to test")
    if any(n_seen and not expected.get(key) for key, n_seen in counts.items()):
        return GTest(math.inf, 0, 0.0)
    common, probs, degrees = pooled(expected, n)
    shares = lumped({key: n_seen / n for key, n_seen in counts.items()}, common)
    statistic = 2 * n * divergence(shares, probs)
    return GTest(statistic, degrees, chi_square_tail(statistic, degrees))


def power(
    expected: Distribution, other: Distribution, n: int, false_alarm: float
) -> float:
    """The chance that `n` draws from `other` give a p_value below `false_alarm`.

    Raises ValueError for fewer draws than 1 and for a chance that is not in (0, 1).
    """
    check_rate("false_alarm", false_alarm)
    if not n >= 1:
        raise ValueError(f"n must be at least 1 draw, got {n}")
    possible = {key: prob for key, prob in other.items() if expected.get(key)}
    allowed = math.fsum(possible.values())
    unseen = min(allowed, 1.0) ** n  # no draw is one that `expected` forbids
    if unseen < 1e-300:
        return 1.0
    common, probs, degrees = pooled(expected, n)
    drawn = [prob / allowed for prob in lumped(possible, common)]
    shift = 2 * n * divergence(drawn, probs)
    found = noncentral_tail(critical_value(degrees, false_alarm), degrees, shift)
    return 1 - unseen * (1 - found)


def draws_needed(
    expected: Distribution,
    other: Distribution,
    false_alarm: float = 1e-4,
    wanted: float = 0.999,
    at_most: int = 10_000_000,
) -> int:
    """How many draws find `other` in place of `expected` with the power `wanted`.

    Raises ValueError where `at_most` do not: the two are then all but the same. Also
    for chances that are not in (0, 1).
    """
    check_rate("wanted", wanted)
    n = 1
    while power(expected, other, n, false_alarm) < wanted:
        n = math.ceil(1.1 * n)
        if n > at_most:
            raise ValueError(
                f"{at_most} draws do not tell these distributions apart with power "
                f"{wanted}: they are all but the same; enumerate instead"
            )
    return n


def check_rate(name: str, rate: float) -> None:
    """Raise ValueError for a chance that is never or always, or none at all."""
    if not 0 < rate < 1:
        raise ValueError(f"{name} must be between 0 and 1, got {rate}")


# ---------------------------------------------------------------------- the outcomes


def pooled(expected: Distribution, n: int) -> tuple[list[Output], list[float], int]:
    """The outcomes that are counted one by one, all probabilities, the degrees.

    Raises ValueError for probabilities that do not sum to 1.
    """
    total = math.fsum(expected.values())
    if not abs(total - 1) <= FLOAT32_ROUNDING:
        raise ValueError(f"expected probabilities must sum to 1, got {total}")
    common = [key for key, prob in expected.items() if prob * n >= LEAST_EXPECTED]
    probs = lumped(expected, common)
    return common, probs, sum(prob > 0 for prob in probs) - 1


def lumped(probs: Distribution, common: list[Output]) -> list[float]:
    """The probabilities of these outcomes, and last that of all others."""
    apart = set(common)
    rest = math.fsum(prob for key, prob in probs.items() if key not in apart)
    return [*(probs.get(key, 0.0) for key in common), rest]


def divergence(found: list[float], expected: list[float]) -> float:
    """KL(found || expected) = sum found log(found / expected), in nats."""
    terms = []
    for one, two in zip(found, expected, strict=True):
        if one > 0 and two <= 0:
            return math.inf
        if one > 0:
            terms.append(one * math.log(one / two))
    return max(0.0, math.fsum(terms))


# --------------------------------------------------------------- chi-square's tails


def chi_square_tail(statistic: float, degrees: int) -> float:
    """P(X > statistic) of a chi-square X: the regularised incomplete gamma function."""
    if degrees == 0:  # only one outcome: nothing can deviate
        return 1.0
    halves = torch.tensor([degrees / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(halves[0], halves[1]))


def critical_value(degrees: int, false_alarm: float) -> float:
    """The statistic that a right sampler exceeds with this chance: by bisection.

    Raises ValueError for a chance that is not in (0, 1), and for negative `degrees`.
    """
    check_rate("false_alarm", false_alarm)
    if degrees < 0:
        raise ValueError(f"degrees of freedom must be 0 or more, got {degrees}")
    low, high = 0.0, 1.0
    while chi_square_tail(high, degrees) > false_alarm and degrees:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if chi_square_tail(middle, degrees) > false_alarm:
            low = middle
        else:
            high = middle
    return high


def noncentral_tail(statistic: float, degrees: int, shift: float) -> float:
    """P(X > statistic), X non-central chi-square: a Poisson mixture of central ones."""
    if degrees == 0:
        return 0.0
    if math.isinf(shift):
        return 1.0
    half, spread = shift / 2, 12 * math.sqrt(shift / 2 + 1)
    low, high = max(0, math.floor(half - spread)), math.ceil(half + spread) + 20
    steps = torch.arange(low, high, dtype=torch.float64)
    log_weights = torch.special.xlogy(steps, half) - half - torch.lgamma(steps + 1)
    point = torch.full_like(steps, statistic / 2)
    tails = torch.special.gammaincc(degrees / 2 + steps, point)
    return float((log_weights.exp() * tails).sum())

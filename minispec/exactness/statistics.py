"""Exactness by statistics: for laws that can be drawn from but not enumerated.

Draw n times and compare the counts with the law they should have, by the likelihood
ratio:

    G = 2 sum over outcomes of observed * log(observed / expected)

If the law is right, G is chi-square distributed with (outcomes - 1) degrees of freedom.
If another law is drawn from, G is non-central chi-square with non-centrality
2 n KL(other || law), which grows with n. So a test has two rates that must be stated:

    false alarm   how often a right sampler is called wrong: chosen, e.g. 1e-4
    power         how often a given wrong sampler is found: computed, by choosing n

A pass means: no deviation that these n draws can show. Enumeration, where it is
possible, says more.

Reference: Wilks 1938 (the law of G); Cohen 1988, chapter 7 (power of such tests). Both
are limits for many draws: outcomes of fewer than 5 expected draws are counted as one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch

from minispec.exactness.enumeration import Law

LEAST_EXPECTED = 5  # draws of an outcome, for chi-square to describe its count


@dataclass(frozen=True)
class GTest:
    """A deviation of counts from a law, and how probable one as large is by chance."""

    statistic: float  # G
    degrees: int  # of freedom
    p_value: float


def draw(
    run: Callable[[], Iterable[int]], n: int, seed: int
) -> Counter[tuple[int, ...]]:
    """The outcomes of `n` runs of a sampler that draws from torch's generator.

    The generator (of the CPU) is seeded for this and put back afterwards.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Counter(tuple(map(int, run())) for _ in range(n))


def g_test(counts: Counter[tuple[int, ...]], law: Law) -> GTest:
    """Whether outcomes counted may come from `law`: compare p_value to a false alarm.

    An outcome that the law does not allow makes p_value 0. Raises ValueError without
    counts.
    """
    n = sum(counts.values())
    if n < 1:
        raise ValueError("there are no counts to test")
    if any(count and not law.get(outcome, 0.0) for outcome, count in counts.items()):
        return GTest(math.inf, 0, 0.0)
    common = frequent(law, n)
    observed = pooled({key: counts[key] / n for key in counts}, common)
    statistic = 2 * n * divergence(observed, pooled(law, common))
    degrees = sum(prob > 0 for prob in pooled(law, common)) - 1
    return GTest(statistic, degrees, chi_square_tail(statistic, degrees))


def power(law: Law, other: Law, n: int, false_alarm: float) -> float:
    """The chance that `n` draws from `other` give a p_value below `false_alarm`."""
    allowed = math.fsum(prob for key, prob in other.items() if law.get(key, 0.0))
    unseen = min(allowed, 1.0) ** n  # no draw is one that `law` forbids
    if unseen < 1e-300:
        return 1.0
    common = frequent(law, n)
    probs = pooled(law, common)
    degrees = sum(prob > 0 for prob in probs) - 1
    possible = {key: prob / allowed for key, prob in other.items() if law.get(key)}
    shift = 2 * n * divergence(pooled(possible, common), probs)
    found = noncentral_tail(critical_value(degrees, false_alarm), degrees, shift)
    return 1 - unseen * (1 - found)


def draws_needed(
    law: Law,
    other: Law,
    false_alarm: float = 1e-4,
    wanted: float = 0.999,
    at_most: int = 10_000_000,
) -> int:
    """How many draws find `other` in place of `law` with the power `wanted`.

    Raises ValueError where `at_most` do not: the laws are then all but the same.
    """
    n = 1
    while power(law, other, n, false_alarm) < wanted:
        n = math.ceil(1.1 * n)
        if n > at_most:
            raise ValueError(
                f"{at_most} draws do not tell these laws apart with power {wanted}: "
                "they are all but the same; enumerate instead"
            )
    return n


# ---------------------------------------------------------------------- the outcomes


def frequent(law: Law, n: int) -> list[tuple[int, ...]]:
    """The outcomes that are counted one by one; all others are counted as one."""
    return [key for key, prob in law.items() if prob * n >= LEAST_EXPECTED]


def pooled(law: Law, common: list[tuple[int, ...]]) -> list[float]:
    """The probabilities of these outcomes, and last that of all others."""
    probs = [law.get(key, 0.0) for key in common]
    apart = set(common)
    rest = math.fsum(prob for key, prob in law.items() if key not in apart)
    return [*probs, rest]


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
    """The statistic that a right sampler exceeds with this chance: by bisection."""
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

"""Outcomes that the law forbids are left out of the test.

Made by whoever loops over the law's outcomes; a sampler may return ids of probability 0
(pytorch/pytorch, issues 48841 and 50034).
"""

from collections import Counter

from minispec.exactness import Law
from minispec.exactness.statistics import (
    GTest,
    chi_square_tail,
    divergence,
    frequent,
    pooled,
)

REPLACES = "exactness/statistics.py:g_test"
CAUGHT_BY = ["test_exactness_kit.py"]


def g_test(counts: Counter[tuple[int, ...]], law: Law) -> GTest:
    n = sum(counts.values())
    if n < 1:
        raise ValueError("there are no counts to test")
    common = frequent(law, n)
    possible = {key: count / n for key, count in counts.items() if law.get(key)}
    observed = pooled(possible, common)
    statistic = 2 * n * divergence(observed, pooled(law, common))
    degrees = sum(prob > 0 for prob in pooled(law, common)) - 1
    return GTest(statistic, degrees, chi_square_tail(statistic, degrees))

"""The G test has as many degrees of freedom as outcomes, not one less.

Made by whoever forgets that the counts must add up to n: wrong samplers pass more often
(inference).
"""

import math
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
    if any(count and not law.get(outcome, 0.0) for outcome, count in counts.items()):
        return GTest(math.inf, 0, 0.0)
    common = frequent(law, n)
    observed = pooled({key: counts[key] / n for key in counts}, common)
    statistic = 2 * n * divergence(observed, pooled(law, common))
    degrees = sum(prob > 0 for prob in pooled(law, common))
    return GTest(statistic, degrees, chi_square_tail(statistic, degrees))

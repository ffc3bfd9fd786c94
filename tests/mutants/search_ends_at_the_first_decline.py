"""The search for gamma ends where the speed-up first falls.

Made by whoever takes the curve for one hill: with measured verification costs, which
rise in steps, it has several (inference).
"""

from collections.abc import Callable

from minispec.analysis import _check, _check_alpha, expected_speedup, flat_cost

REPLACES = "analysis.py:best_gamma"
CAUGHT_BY = ["test_analysis.py"]


def best_gamma(
    alpha: float,
    cost_ratio: float,
    verify_cost: Callable[[int], float] = flat_cost,
    longest: int = 64,
) -> int:
    _check_alpha(alpha)
    _check("longest", longest, longest >= 0, "0 or more")
    gains = [1.0]
    for gamma in range(1, longest + 1):
        gains.append(expected_speedup(alpha, gamma, cost_ratio, verify_cost(gamma)))
        if gamma > 1 and gains[-1] <= gains[-2]:
            break
    return gains.index(max(gains))

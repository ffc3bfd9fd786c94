"""The best gamma is sought from 1 on: never to speculate is no answer.

Made by whoever tunes gamma with a draft that pays (inference).
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

    def speedup(gamma: int) -> float:
        return expected_speedup(alpha, gamma, cost_ratio, verify_cost(gamma))

    return max(range(1, longest + 1), key=speedup, default=0)

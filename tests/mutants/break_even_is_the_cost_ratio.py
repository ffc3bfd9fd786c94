"""Any draft length is said to pay from alpha = c on.

Corollary 3.9 says that for some length; longer ones need more. Made by whoever reads
its first half (inference).
"""

REPLACES = "analysis.py:break_even_alpha"
CAUGHT_BY = ["test_analysis.py"]


def break_even_alpha(
    gamma: int, cost_ratio: float, verify_cost: float = 1.0
) -> float | None:
    return cost_ratio if cost_ratio <= 1 else None

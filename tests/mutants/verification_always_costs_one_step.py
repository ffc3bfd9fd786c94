"""A pass over gamma + 1 tokens costs one step, whatever was measured.

Made by whoever takes the paper's memory-bound assumption to a CPU (inference).
"""

REPLACES = "analysis.py:round_speedup"
CAUGHT_BY = ["test_analysis.py"]


def round_speedup(
    tokens: float, drafted: float, cost_ratio: float, verify_cost: float = 1.0
) -> float:
    return tokens / (drafted * cost_ratio + 1)

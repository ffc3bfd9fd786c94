"""The speed-up is tokens over verification alone: drafting costs nothing.

Made by whoever counts passes of the target (inference).
"""

REPLACES = "analysis.py:round_speedup"
CAUGHT_BY = ["test_analysis.py"]


def round_speedup(
    tokens: float, drafted: float, cost_ratio: float, verify_cost: float = 1.0
) -> float:
    return tokens / verify_cost

"""(1 - alpha^gamma) / (1 - alpha): the exponent is gamma instead of gamma + 1.

Made by whoever recalls the closed form and not what it sums (inference).
"""

REPLACES = "analysis.py:expected_tokens"
CAUGHT_BY = ["test_analysis.py"]


def expected_tokens(alpha: float, gamma: int) -> float:
    if alpha == 1:
        return float(gamma)
    return (1 - alpha**gamma) / (1 - alpha)

"""The mean of a round is alpha + ... + alpha^gamma: the target's own token is missing.

Made by whoever counts accepted drafts and calls it tokens per round (inference).
"""

REPLACES = "analysis.py:expected_tokens"
CAUGHT_BY = ["test_analysis.py"]


def expected_tokens(alpha: float, gamma: int) -> float:
    return sum(alpha**i for i in range(1, gamma + 1))

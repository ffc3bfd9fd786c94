"""Outcomes of which hardly one is expected are tested each for itself.

Chi-square does not describe their counts. Made by whoever applies the test as it stands
to a large vocabulary (inference).
"""

from minispec.exactness import Law

REPLACES = "exactness/statistics.py:frequent"
CAUGHT_BY = ["test_exactness_kit.py"]


def frequent(law: Law, n: int) -> list[tuple[int, ...]]:
    return list(law)

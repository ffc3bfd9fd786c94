"""Only sequences that the code under test produced are compared.

Made by whoever iterates over one law; what it never produces is not missed (inference).
"""

from minispec.exactness.enumeration import Law

REPLACES = "exactness/comparison.py:largest_difference"
CAUGHT_BY = ["test_exactness.py"]


def largest_difference(a: Law, b: Law) -> float:
    return max(abs(a[key] - b.get(key, 0.0)) for key in a)

"""The largest difference is found without abs: what comes out too rarely is no fault.

Made by whoever looks for tokens that come too often (inference).
"""

from minispec.exactness.enumeration import Law

REPLACES = "exactness/comparison.py:largest_difference"
CAUGHT_BY = ["test_exactness.py"]


def largest_difference(a: Law, b: Law) -> float:
    return max(a.get(key, 0.0) - b.get(key, 0.0) for key in a.keys() | b.keys())

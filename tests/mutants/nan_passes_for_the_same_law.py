"""A law of NaN equals every law, since NaN > tolerance is false.

Made by whoever writes `if difference > tolerance: raise` (inference).
"""

from minispec.exactness.comparison import comparison
from minispec.exactness.enumeration import Law

REPLACES = "exactness/comparison.py:assert_same_law"
CAUGHT_BY = ["test_exactness_kit.py"]


def assert_same_law(a: Law, b: Law, tolerance: float = 1e-12) -> None:
    difference = max(abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in a | b)
    if difference > tolerance:
        raise AssertionError(
            f"the laws differ by up to {difference:.3g} (tolerance {tolerance:.3g}); "
            f"of {len(a | b)} sequences the worst:\n{comparison(a, b)}"
        )

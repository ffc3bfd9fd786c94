"""A draft that was kept but cut off with the text counts as accepted.

Made by whoever counts before cutting.
"""

from minispec.generation import Fate

REPLACES = "generation.py:fate"
CAUGHT_BY = ["test_speculative.py"]


def fate(i: int, n_accepted: int, n_committed: int) -> Fate:
    if i < n_accepted:
        return "accepted"
    return "refused" if i == n_accepted else "unread"

"""Short suffixes are tried first, and one token nearly always matches.

Made by whoever loops upwards (inference).
"""

from torch import Tensor

REPLACES = "drafters/ngram.py:copy_continuation"
CAUGHT_BY = ["test_ngram.py"]


def copy_continuation(
    prefix: Tensor, gamma: int, longest: int, shortest: int
) -> Tensor:
    for n in range(shortest, min(longest, len(prefix) - 1) + 1):
        windows = prefix.unfold(0, n, 1)[:-1]
        matches = (windows == prefix[-n:]).all(dim=1).nonzero()
        if len(matches):
            start = int(matches[-1]) + n
            return prefix[start : start + gamma]
    return prefix[:0]

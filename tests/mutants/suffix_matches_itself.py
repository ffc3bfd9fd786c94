"""The search finds the suffix in its own place, after which there is nothing.

Made by whoever forgets to leave out the last window: nothing is ever drafted, and all
of nothing accepted (ggml-org/llama.cpp, issue 3919, is a draft that barely drafts).
"""

from torch import Tensor

REPLACES = "drafters/ngram.py:copy_continuation"
CAUGHT_BY = ["test_ngram.py"]


def copy_continuation(
    prefix: Tensor, gamma: int, longest: int, shortest: int
) -> Tensor:
    for n in range(min(longest, len(prefix) - 1), shortest - 1, -1):
        windows = prefix.unfold(0, n, 1)
        matches = (windows == prefix[-n:]).all(dim=1).nonzero()
        if len(matches):
            start = int(matches[-1]) + n
            return prefix[start : start + gamma]
    return prefix[:0]

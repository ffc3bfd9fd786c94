"""A continuation that meets the end of the text is filled up with id 0.

Fixed shapes invite it. FasterDecoding/Medusa pads its tree with token 0, which can be
accepted (seen in its source, not reported).
"""

import torch.nn.functional as F
from torch import Tensor

REPLACES = "drafters/ngram.py:copy_continuation"
CAUGHT_BY = ["test_ngram.py"]


def copy_continuation(
    prefix: Tensor, gamma: int, longest: int, shortest: int
) -> Tensor:
    for n in range(min(longest, len(prefix) - 1), shortest - 1, -1):
        windows = prefix.unfold(0, n, 1)[:-1]
        matches = (windows == prefix[-n:]).all(dim=1).nonzero()
        if len(matches):
            start = int(matches[-1]) + n
            return F.pad(prefix[start:], (0, gamma))[:gamma]
    return prefix[:0]

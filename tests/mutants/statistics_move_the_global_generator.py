"""Drawing for a test seeds torch's generator and leaves it so.

Made by whoever writes `manual_seed` at the top of a helper (inference; a `manual_seed`
inside the acceptance loop is in feifeibear/LLMSpeculativeSampling, seen in the source).
"""

from collections import Counter
from collections.abc import Callable, Iterable

import torch

REPLACES = "exactness/statistics.py:draw"
CAUGHT_BY = ["test_exactness_kit.py"]


def draw(
    run: Callable[[], Iterable[int]], n: int, seed: int
) -> Counter[tuple[int, ...]]:
    torch.manual_seed(seed)
    return Counter(tuple(map(int, run())) for _ in range(n))

"""The most probable tokens are filled up with some of probability 0.

Made by whoever takes what `topk` gives (inference).
"""

import torch
from torch import Tensor

REPLACES = "trace/recording.py:most_probable"
CAUGHT_BY = ["test_recording.py"]


def most_probable(row: Tensor, n: int) -> list[tuple[int, float]]:
    probs, tokens = torch.topk(row, min(n, len(row)))
    return list(zip(tokens.tolist(), probs.tolist()))

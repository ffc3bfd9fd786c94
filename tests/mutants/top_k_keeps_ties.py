"""Top-k keeps every token that is as probable as the k-th, so more than k.

Made by whoever compares with the k-th largest value instead of counting.
"""

from torch import Tensor

REPLACES = "sampling.py:keep_top_k"
CAUGHT_BY = ["test_sampling.py"]


def keep_top_k(probs: Tensor, k: int) -> Tensor:
    smallest_kept = probs.topk(k, dim=-1).values[:, -1:]
    return probs.where(probs >= smallest_kept, 0.0)

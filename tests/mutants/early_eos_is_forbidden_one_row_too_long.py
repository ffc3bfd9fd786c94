"""The minimum length holds EOS back in one drafted row too many.

Made by whoever counts the token that a row decides as already written; claimed of a
reference in vllm-project/vllm, pull request 41768 (closed).
"""

import torch
from torch import Tensor

from minispec.sampling import Sampling

REPLACES = "sampling.py:forbid_early_eos"
CAUGHT_BY = ["test_sampling.py"]


def forbid_early_eos(scores: Tensor, sampling: Sampling, n_history: int) -> Tensor:
    R, V = scores.shape
    n = n_history - (R - 1)
    n_early = min(max(sampling.min_length - n + 1, 0), R)
    scores = scores.clone()
    scores[:n_early, [eos for eos in sampling.eos_ids if 0 <= eos < V]] = -torch.inf
    return scores

"""An EOS id that no token has is used as an index all the same.

Made by whoever trusts the request: -1 for "no EOS" then forbids the last token of the
vocabulary (inferred from that convention).
"""

import torch
from torch import Tensor

from minispec.sampling import Sampling

REPLACES = "sampling.py:forbid_early_eos"
CAUGHT_BY = ["test_sampling.py"]


def forbid_early_eos(scores: Tensor, sampling: Sampling, n_history: int) -> Tensor:
    R, V = scores.shape
    n = n_history - (R - 1)
    n_early = min(max(sampling.min_length - n, 0), R)
    scores = scores.clone()
    scores[:n_early, [eos for eos in sampling.eos_ids if eos < V]] = -torch.inf
    return scores

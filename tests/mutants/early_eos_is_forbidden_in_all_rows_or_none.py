"""The minimum length is asked once a round: all rows lose EOS, or none.

Made by whoever applies a processor written for one row to a block of them.
"""

import torch
from torch import Tensor

from minispec.sampling import Sampling

REPLACES = "sampling.py:forbid_early_eos"
CAUGHT_BY = ["test_sampling.py"]


def forbid_early_eos(scores: Tensor, sampling: Sampling, n_history: int) -> Tensor:
    R, V = scores.shape
    if n_history - (R - 1) >= sampling.min_length:
        return scores
    scores = scores.clone()
    scores[:, [eos for eos in sampling.eos_ids if 0 <= eos < V]] = -torch.inf
    return scores

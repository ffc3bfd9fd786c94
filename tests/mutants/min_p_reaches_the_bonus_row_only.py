"""Min-p is applied to the last row and not to those of the drafted tokens.

Made by whoever adds a processor to the place where a plain step samples (vllm-
project/vllm, issue 42744 and pull request 42802).
"""

import torch
from torch import Tensor

from minispec.sampling import Sampling, keep_min_p, keep_top_k, keep_top_p, normalize

REPLACES = "sampling.py:truncate"
CAUGHT_BY = ["test_sampling.py"]


def truncate(probs: Tensor, sampling: Sampling) -> Tensor:
    if sampling.top_k is not None and sampling.top_k < probs.shape[-1]:
        probs = normalize(keep_top_k(probs, sampling.top_k))
    if sampling.top_p < 1:
        probs = normalize(keep_top_p(probs, sampling.top_p))
    if sampling.min_p > 0:
        last = normalize(keep_min_p(probs[-1:], sampling.min_p))
        probs = torch.cat([probs[:-1], last])
    return probs

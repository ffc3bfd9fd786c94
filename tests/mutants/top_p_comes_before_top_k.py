"""Top-p is taken of the whole distribution, before top-k cuts it.

Made by whoever takes the order of the steps for a matter of taste.
"""

from torch import Tensor

from minispec.sampling import Sampling, keep_min_p, keep_top_k, keep_top_p, normalize

REPLACES = "sampling.py:truncate"
CAUGHT_BY = ["test_sampling.py"]


def truncate(probs: Tensor, sampling: Sampling) -> Tensor:
    if sampling.top_p < 1:
        probs = normalize(keep_top_p(probs, sampling.top_p))
    if sampling.top_k is not None and sampling.top_k < probs.shape[-1]:
        probs = normalize(keep_top_k(probs, sampling.top_k))
    if sampling.min_p > 0:
        probs = normalize(keep_min_p(probs, sampling.min_p))
    return probs

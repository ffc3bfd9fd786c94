"""Top-p is taken at temperature 1, and the temperature shapes what is left.

Made by whoever truncates the model's distribution first and sharpens afterwards.
"""

import torch
from torch import Tensor

from minispec.sampling import (
    Sampling,
    forbid_early_eos,
    one_hot,
    penalize_repeats,
    truncate,
)

REPLACES = "sampling.py:logits_to_probs"
CAUGHT_BY = ["test_sampling.py"]


def logits_to_probs(logits: Tensor, sampling: Sampling, history: Tensor) -> Tensor:
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if sampling.repetition_penalty != 1:
        scores = penalize_repeats(scores, history, sampling.repetition_penalty)
    if sampling.min_length:
        scores = forbid_early_eos(scores, sampling, len(history))
    highest = scores.amax(dim=-1, keepdim=True)
    if not highest.isfinite().all():
        raise ValueError(
            "the logits hold NaN, +inf, or a row of only -inf: check the weights, "
            "and that min_length does not forbid the only tokens left"
        )
    if sampling.temperature == 0:
        return one_hot(scores)
    probs = truncate((scores - highest).softmax(dim=-1), sampling)
    return (probs.log() / sampling.temperature).softmax(dim=-1)

"""A row of NaN is passed on as if it were a distribution.

Made by whoever trusts the model: the id that comes out can be the size of the
vocabulary, and the crash comes later (vllm-project/vllm, issue 53029).
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
    if sampling.temperature == 0:
        return one_hot(scores)
    probs = ((scores - highest) / sampling.temperature).softmax(dim=-1)
    return truncate(probs, sampling)

"""The probabilities are as coarse as the model's weights.

Made by whoever leaves the logits in the model's type; in bfloat16 a uniform is 0 once
in 512 draws, and gpt-fast, whose uniform has the model's type, then accepts what the
target forbids (its source).
"""

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
    scores = logits
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
    probs = ((scores - highest) / sampling.temperature).softmax(dim=-1)
    return truncate(probs, sampling)

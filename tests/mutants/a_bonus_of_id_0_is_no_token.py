"""A bonus whose id is 0 is taken for the padding, and drawn again from the others.

Made by whoever fills empty places with id 0, which is a token like any other: the last
row was compared with such a dummy (review of vllm-project/vllm, pull request 29274).
"""

from torch import Tensor

from minispec.randomness import Randomness
from minispec.rejection import Verdict, acceptance_ratios, residual

REPLACES = "rejection.py:reject"
CAUGHT_BY = ["test_rejection.py"]


def reject(
    tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, randomness: Randomness
) -> Verdict:
    if draft_probs.shape != target_probs[:-1].shape:
        raise ValueError(
            f"draft_probs must be [K, V] as the target's K rows are, "
            f"{list(target_probs[:-1].shape)}, got {list(draft_probs.shape)}"
        )
    ratios = acceptance_ratios(tokens, draft_probs, target_probs)
    n_accepted = randomness.leading_accepts(ratios)
    if n_accepted == len(tokens):
        row = target_probs[n_accepted]
    else:
        row = residual(target_probs[n_accepted], draft_probs[n_accepted])
    return Verdict(n_accepted, randomness.sample(row) or int(row[1:].argmax()) + 1)

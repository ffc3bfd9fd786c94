"""With all drafts kept, the next token still comes from a residual.

Made by whoever pads the draft's rows to K + 1 and has one case for both.
"""

import torch
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
    padded = torch.cat([draft_probs, draft_probs[-1:]])
    if not len(padded):
        return Verdict(0, randomness.sample(target_probs[0]))
    row = residual(target_probs[n_accepted], padded[n_accepted])
    return Verdict(n_accepted, randomness.sample(row))

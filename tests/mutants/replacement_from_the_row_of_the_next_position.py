"""After a refusal the token is drawn for the position behind the refused one.

Made by whoever adds one for the token that is about to be written.
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
        row = residual(target_probs[n_accepted + 1], draft_probs[n_accepted])
    return Verdict(n_accepted, randomness.sample(row))

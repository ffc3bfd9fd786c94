"""After a refusal the draft is struck out of the target's row, and no more.

Made by whoever knows the rule for drafts that were chosen, not drawn, where it is
exact; it looked wrong to a reader there (SafeAILab/EAGLE, issue 183) and is wrong here.
"""

from torch import Tensor

from minispec.randomness import Randomness
from minispec.rejection import Verdict, acceptance_ratios

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
        row = target_probs[n_accepted].clone()
        row[tokens[n_accepted]] = 0
        row = row / row.sum() if row.sum() > 0 else target_probs[n_accepted]
    return Verdict(n_accepted, randomness.sample(row))

"""What is told of a draft is the target's probability one row late.

Made by whoever skips the first row where the last must be left out.
"""

from torch import Tensor

from minispec.draft import Proposal
from minispec.generation import DraftedToken, fate

REPLACES = "generation.py:describe"
CAUGHT_BY = ["test_speculative.py"]


def describe(
    proposal: Proposal, target_probs: Tensor, n_accepted: int, n_committed: int
) -> tuple[DraftedToken, ...]:
    column = proposal.tokens[:, None]
    draft_prob = proposal.draft_probs.gather(1, column)[:, 0].tolist()
    target_prob = target_probs[1:].gather(1, column)[:, 0].tolist()
    return tuple(
        DraftedToken(*values, fate(i, n_accepted, n_committed))
        for i, values in enumerate(
            zip(proposal.tokens.tolist(), draft_prob, target_prob)
        )
    )

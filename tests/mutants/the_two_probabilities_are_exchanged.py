"""What is told of a draft has the target's probability as the draft's.

Made by whoever passes two numbers of one type in the wrong order.
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
    target_prob = target_probs[:-1].gather(1, column)[:, 0].tolist()
    return tuple(
        DraftedToken(*values, fate(i, n_accepted, n_committed))
        for i, values in enumerate(
            zip(proposal.tokens.tolist(), target_prob, draft_prob)
        )
    )

"""The drafter drafts as many tokens as it is asked for, whatever its context.

Made by whoever gives the draft the target's context; GPT-2's has no positions beyond
its last (huggingface/transformers, issue 1749).
"""

from torch import Tensor

from minispec.draft import Proposal, draft
from minispec.randomness import Randomness

REPLACES = "draft.py:ModelDrafter.propose"
CAUGHT_BY = ["test_draft.py"]


class ModelDrafter:
    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        return draft(self.model, self.cache, prefix, gamma, self.sampling, randomness)

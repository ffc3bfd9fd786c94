"""The drafter leaves the last position of its context unused.

Made by whoever forgets that the last draft is never fed.
"""

from torch import Tensor

from minispec.draft import Proposal, draft
from minispec.randomness import Randomness

REPLACES = "draft.py:ModelDrafter.propose"
CAUGHT_BY = ["test_draft.py"]


class ModelDrafter:
    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        fits = self.model.config.n_positions - len(prefix)
        K = max(0, min(gamma, fits))
        return draft(self.model, self.cache, prefix, K, self.sampling, randomness)

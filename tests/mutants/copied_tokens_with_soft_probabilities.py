"""Copied tokens are declared as drawn uniformly, not as certain.

Whoever drafts deterministically and hands over other probabilities breaks the law of
the output; huggingface/transformers, issue 47932, is one such drafter.
"""

import torch
from torch import Tensor

from minispec.draft import Proposal
from minispec.drafters.ngram import copy_continuation
from minispec.randomness import Randomness

REPLACES = "drafters/ngram.py:NgramDrafter.propose"
CAUGHT_BY = ["test_ngram.py"]


class NgramDrafter:
    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        tokens = copy_continuation(prefix, gamma, self.longest, self.shortest)
        V = self.vocab_size
        return Proposal(tokens, torch.full((len(tokens), V), 1 / V))

"""The row of a chosen token is 1 everywhere, not only at the token.

Made by whoever needs only the ratio, where it is right; the residual then has no mass,
and a refused token may come back.
"""

from __future__ import annotations

import torch
from torch import Tensor

REPLACES = "draft.py:Proposal.certain"
CAUGHT_BY = ["test_draft.py"]


class Proposal:
    @classmethod
    def certain(cls, tokens: Tensor, vocab_size: int) -> Proposal:
        return cls(tokens, torch.ones(len(tokens), vocab_size))

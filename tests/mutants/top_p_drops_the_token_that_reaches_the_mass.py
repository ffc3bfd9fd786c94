"""Top-p keeps the tokens whose cumulative mass stays within it, and not one more.

Made by whoever cuts where the cumulative sum exceeds the mass without moving the cut
one place on; a first token above the mass then leaves none.
"""

import torch
from torch import Tensor

REPLACES = "sampling.py:keep_top_p"
CAUGHT_BY = ["test_sampling.py"]


def keep_top_p(probs: Tensor, mass: float) -> Tensor:
    ranked, order = probs.sort(dim=-1, descending=True, stable=True)
    kept = ranked.where(ranked.cumsum(dim=-1) <= mass, 0.0)
    return torch.zeros_like(probs).scatter(-1, order, kept)

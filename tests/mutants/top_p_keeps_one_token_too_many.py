"""Top-p adds a token when the mass has been reached exactly.

Made by whoever writes <= where the definition asks for the fewest tokens.
"""

import torch
from torch import Tensor

REPLACES = "sampling.py:keep_top_p"
CAUGHT_BY = ["test_sampling.py"]


def keep_top_p(probs: Tensor, mass: float) -> Tensor:
    ranked, order = probs.sort(dim=-1, descending=True, stable=True)
    mass_before = ranked.cumsum(dim=-1) - ranked
    kept = ranked.where(mass_before <= mass, 0.0)
    return torch.zeros_like(probs).scatter(-1, order, kept)

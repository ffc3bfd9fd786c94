"""The causal mask hides the diagonal: no new token sees itself.

Made by whoever is off by one in `triu` (inference).
"""

import torch
from torch import Tensor

REPLACES = "attention.py:causal_mask"
CAUGHT_BY = ["test_gpt2.py"]


def causal_mask(n_new: int, n_all: int, like: Tensor) -> Tensor | None:
    if n_new == 1:
        return None
    hidden = torch.full((n_new, n_all), -torch.inf, dtype=like.dtype)
    return hidden.triu(n_all - n_new).to(like.device)

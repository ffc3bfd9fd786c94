"""The repetition penalty of every row knows all the drafts, those after it too.

Made by whoever appends the drafts to the text first and then treats all rows alike.
"""

import torch
from torch import Tensor

REPLACES = "sampling.py:penalize_repeats"
CAUGHT_BY = ["test_sampling.py"]


def penalize_repeats(scores: Tensor, history: Tensor, penalty: float) -> Tensor:
    penalized = scores.clone()
    seen = history.unique()
    old = scores[:, seen]
    penalized[:, seen] = torch.where(old > 0, old / penalty, old * penalty)
    return penalized

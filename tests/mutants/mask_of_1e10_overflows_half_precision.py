"""The mask is -1e10 times what is hidden, which is infinity times 0 in float16: NaN.

GPT-2 was published with 1e10 and so were its copies (huggingface/transformers, pull
request 4098; openai/gpt-2, pull request 122).
"""

import torch
from torch import Tensor

REPLACES = "attention.py:causal_mask"
CAUGHT_BY = ["test_gpt2.py"]


def causal_mask(n_new: int, n_all: int, like: Tensor) -> Tensor | None:
    if n_new == 1:
        return None
    seen = torch.ones(n_new, n_all).tril(n_all - n_new).to(like)
    return (1 - seen) * torch.tensor(-1e10).to(like)

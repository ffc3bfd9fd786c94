"""The kernel's own 1 / sqrt(D) is used, and the scale that was asked for ignored.

Made by whoever relies on the default of `scaled_dot_product_attention`: right for
GPT-2, wrong for inverse-layer scaling (inference).
"""

import torch.nn.functional as F
from torch import Tensor

REPLACES = "attention.py:fused_attention"
CAUGHT_BY = ["test_gpt2.py"]


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    if query.shape[-2] == key.shape[-2]:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    return F.scaled_dot_product_attention(query, key, value, mask)

"""Attention twice: spelled out, and in one fused kernel. The tests prove them equal.

    attention(query, key, value) = softmax(query @ key.T * scale + mask) @ value

With a cache of S positions, the T queries are the new tokens' and the S + T keys are
everybody's, so the mask is the last T rows of the familiar triangle.

Paper: Vaswani et al. 2017, section 3.2.1.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

# An attention form: queries [B, H, T, D], keys and values [B, H, S + T, D], the mask
# [T, S + T] (added to the scores; None when nothing is hidden), scale -> [B, H, T, D]
AttentionForm = Callable[[Tensor, Tensor, Tensor, "Tensor | None", float], Tensor]


def open_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:  # [B, H, T, D], 2 x [B, H, S + T, D], [T, S + T] -> [B, H, T, D]
    """softmax(query @ key.T * scale + mask) @ value, in the open."""
    scores = query @ key.transpose(-2, -1) * scale
    if mask is not None:
        scores = scores + mask
    return scores.softmax(dim=-1) @ value


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:  # [B, H, T, D], 2 x [B, H, S + T, D], [T, S + T] -> [B, H, T, D]
    """The same under a causal mask, in one fused kernel that stores no scores.

    Without a past (S = 0) the kernel makes the mask itself, and `mask` is not read.
    """
    if query.shape[-2] == key.shape[-2]:  # S = 0
        return F.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scale
        )
    return F.scaled_dot_product_attention(query, key, value, mask, scale=scale)


def causal_mask(
    n_new: int, n_all: int, like: Tensor
) -> Tensor | None:  # T, S + T -> [T, S + T]
    """0 where new token i may look (everything up to itself), -inf where it may not.

    The new tokens are the last `n_new` of `n_all`, so row i sees the first
    n_all - n_new + i + 1 positions: the diagonal is anchored bottom right. From a
    single new token nothing is hidden: None.
    """
    if n_new == 1:
        return None
    hidden = like.new_full((n_new, n_all), -torch.inf)
    return hidden.triu(n_all - n_new + 1)

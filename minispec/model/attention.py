"""Attention twice: spelled out, and in one fused kernel. The tests prove them equal.

    attention(query, key, value) = softmax(query @ key.T * scale + mask) @ value

With a cache of S positions, the T queries are the new tokens' and the S + T keys are
everybody's, so the causal mask is the last T rows of the familiar triangle. A mask of
None means causal; trees and batches bring their own.

Paper: Vaswani et al. 2017, section 3.2.1.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

# An attention form: queries [B, H, T, D], keys and values [B, H, S + T, D], the mask
# (added to the scores, as [T, S + T] or one for each row of the batch; in none of its
# rows all -inf, which has no softmax; None: causal),
# the scale -> [B, H, T, D]
AttentionForm = Callable[[Tensor, Tensor, Tensor, "Tensor | None", float], Tensor]


def open_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:  # [B, H, T, D], 2 x [B, H, S + T, D], [T, S + T] -> [B, H, T, D]
    """softmax(query @ key.T * scale + mask) @ value, in the open."""
    scores = query @ key.transpose(-2, -1) * scale
    if mask is None:
        mask = causal_mask(query.shape[-2], key.shape[-2], like=scores)
    if mask is not None:
        scores = scores + mask
    return scores.softmax(dim=-1) @ value


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:  # [B, H, T, D], 2 x [B, H, S + T, D], [T, S + T] -> [B, H, T, D]
    """The same in one fused kernel that stores no scores."""
    T, n_all = query.shape[-2], key.shape[-2]
    # The kernel makes a causal mask itself, but anchored top left: right where S = 0.
    is_causal = mask is None and T == n_all
    if mask is None and not is_causal:
        mask = causal_mask(T, n_all, like=query)
    return F.scaled_dot_product_attention(
        query, key, value, mask, is_causal=is_causal, scale=scale
    )


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

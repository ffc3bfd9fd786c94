"""EAGLE's step, multiplied out: the same function in half the time.

Everything around the block is linear, so its matrices are multiplied once, when the
drafter is made. With W_f and W_e, the halves of `fc`, and a guess a before `out`:

    f W_f + (wte[t] W_e + b)                            into the block, a real feature
    a (out W_f) + (wte[t] W_e + b + out_b W_f)          into it, after a guess
    a (out wte^T) + out_b wte^T                         logits

The rows in brackets are a table with a row for each token, so a drafted token costs one
look-up, the block, and one product with h x V numbers in place of E x V.

The block itself is `model/bare.py`'s.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from minispec.model.bare import BareBlock, norm_of
from minispec.model.gpt2 import Block
from minispec.model.kv_cache import KVCache
from minispec.model.layers import LayerNorm


class Affine(NamedTuple):
    """x @ weight + bias; the bias may be a table with a row for each token."""

    bias: Tensor  # [out] or [V, out]
    weight: Tensor  # [in, out]


class Folded:
    """A head for one target; `real`, `guessed` and `logits` are the lines above."""

    def __init__(
        self, block: Block, ln: LayerNorm, real: Affine, guessed: Affine, logits: Affine
    ) -> None:
        self.block, self.ln = BareBlock(block), norm_of(ln)
        self.real, self.guessed, self.logits = real, guessed, logits

    def after(
        self, seen: Tensor, tokens: Tensor, by: Affine, cache: KVCache
    ) -> Tensor:  # [T, in], [T] -> [T, h]
        """The guesses after what was seen and a token each: new rows of the cache."""
        x = torch.addmm(by.bias[tokens], seen, by.weight)
        x = self.block.forward(x[None], cache, None)[0]
        cache.advance(len(tokens))
        return self.ln(x)

    def scores(self, guess: Tensor) -> Tensor:  # [1, h] -> [1, V]
        """The target's logits, as the head guesses them."""
        return torch.addmm(self.logits.bias, guess, self.logits.weight)

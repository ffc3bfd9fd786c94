"""EAGLE's step, multiplied out: the same function in half the time.

Everything around the block is linear, so its matrices are multiplied once, when the
drafter is made. With W_f and W_e, the halves of `fc`, and a guess a before `out`:

    f W_f + (wte[t] W_e + b)                            into the block, a real feature
    a (out W_f) + (wte[t] W_e + b + out_b W_f)          into it, after a guess
    a (out wte^T) + out_b wte^T                         logits

The rows in brackets are a table with a row for each token, so a drafted token costs one
look-up, the block, and one product with h x V numbers in place of E x V.

At this size a product takes as long as it takes Python to ask for it. So the block is
written out on bare tensors, without modules; it computes what `model.gpt2.Block` does,
and a test says so.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from minispec.model.attention import fused_attention
from minispec.model.gpt2 import Block, GPTConfig
from minispec.model.kv_cache import KVCache
from minispec.model.layers import Conv1D, LayerNorm


class Affine(NamedTuple):
    """x @ weight + bias; the bias may be a table with a row for each token."""

    bias: Tensor  # [out] or [V, out]
    weight: Tensor  # [in, out]


class Folded:
    """A head for one target; `real`, `guessed` and `logits` are the lines above."""

    def __init__(
        self, block: Block, ln: LayerNorm, real: Affine, guessed: Affine, logits: Affine
    ) -> None:
        self.block, self.ln = BareBlock(block), bare(ln)
        self.real, self.guessed, self.logits = real, guessed, logits

    def after(
        self, seen: Tensor, tokens: Tensor, by: Affine, cache: KVCache
    ) -> Tensor:  # [T, in], [T] -> [T, h]
        """The guesses after what was seen and a token each: new rows of the cache."""
        x = torch.addmm(by.bias[tokens], seen, by.weight)
        return norm(self.block(x, cache), self.ln)

    def scores(self, guess: Tensor) -> Tensor:  # [1, h] -> [1, V]
        """The target's logits, as the head guesses them."""
        return product(guess, self.logits)


class BareBlock:
    """The tensors of a block, and one pass through it for a batch of one."""

    def __init__(self, block: Block) -> None:
        attn, mlp = block.attn, block.mlp
        self.ln_1, self.ln_2 = bare(block.ln_1), bare(block.ln_2)
        self.c_attn, self.c_proj = bare(attn.c_attn), bare(attn.c_proj)
        self.mlp_in, self.mlp_out = bare(mlp.c_fc), bare(mlp.c_proj)
        self.n_head, self.scale = attn.n_head, attn.scale
        self.activation = mlp.activation

    def __call__(self, x: Tensor, cache: KVCache) -> Tensor:  # [T, h] -> [T, h]
        T, h = x.shape
        heads = product(norm(x, self.ln_1), self.c_attn).view(1, T, 3, self.n_head, -1)
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # each [1, H, T, D]
        key, value = cache.append(0, key, value)
        mixed = fused_attention(query, key, value, None, self.scale)
        x = product(mixed.transpose(1, 2).reshape(T, h), self.c_proj).add_(x)
        inner = self.activation(product(norm(x, self.ln_2), self.mlp_in))
        cache.advance(T)
        return product(inner, self.mlp_out).add_(x)


def bare(layer: Conv1D | LayerNorm) -> Affine:
    return Affine(layer.bias.detach(), layer.weight.detach())


def product(x: Tensor, by: Affine) -> Tensor:  # [T, in] -> [T, out]
    return torch.addmm(by.bias, x, by.weight)


def norm(x: Tensor, by: Affine) -> Tensor:  # [T, h] -> [T, h]
    epsilon = GPTConfig.layer_norm_epsilon  # a head's own blocks have the default
    return torch.layer_norm(x, by.bias.shape, by.weight, by.bias, epsilon)

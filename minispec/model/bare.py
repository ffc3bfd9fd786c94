"""The same block on bare tensors: what it costs to ask for small products.

Python takes some microseconds to call a module, however little that computes, and a
block calls eight. In a large model nobody notices. In a small one, and in every draft,
a product takes no longer than it takes to ask for it. So `lay_bare` takes the tensors
out of their modules, and a block becomes one function. Microseconds of a pass with
a cache of 120 tokens, on one thread of a Xeon:

    rows                                       1       5       8
    target of 12 layers x 256, modules      6300    7400    8100
                               bare         5800    6700    7400
    draft of 1 layer x 64, modules           136     152     157
                           bare              113     130     132

It computes what `gpt2.Block` computes, which is the form to read. Left out: hooks. A
block with one on it or on its parts stays as it is; on the parts of a bare block they
are not called.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from minispec.model.gpt2 import MLP, Attention, Block
from minispec.model.kv_cache import KVCache
from minispec.model.layers import Conv1D, LayerNorm
from minispec.model.packed import TiledConv1D, product

Module = TypeVar("Module", bound=nn.Module)


Parameters = dict[str, Any]  # a layer's own: what is loaded into it later is seen here


class Product(NamedTuple):
    """What a Conv1D computes."""

    of: Parameters

    def __call__(self, x: Tensor) -> Tensor:  # [R, in] -> [R, out]
        return torch.addmm(self.of["bias"], x, self.of["weight"])


class TiledProduct(NamedTuple):
    """What a TiledConv1D computes."""

    of: Parameters

    def __call__(self, x: Tensor) -> Tensor:  # [R, in] -> [R, out]
        return product(x[None], self.of["tiles"])[0] + self.of["bias"]


class Norm(NamedTuple):
    """What a LayerNorm computes."""

    of: Parameters
    eps: float

    def __call__(self, x: Tensor) -> Tensor:  # [R, E] -> [R, E]
        weight = self.of["weight"]
        return torch.layer_norm(x, weight.shape, weight, self.of["bias"], self.eps)


def product_of(layer: nn.Module) -> Product | TiledProduct:
    tiled = isinstance(layer, TiledConv1D)
    return (TiledProduct if tiled else Product)(layer._parameters)


def norm_of(layer: LayerNorm) -> Norm:
    return Norm(layer._parameters, layer.eps)


class BareBlock(Block):
    """A block whose parts are not called; they still hold its parameters."""

    def __init__(self, plain: Block) -> None:
        nn.Module.__init__(self)
        self.ln_1, self.attn, self.ln_2, self.mlp = plain.children()  # type: ignore
        attn, mlp = plain.attn, plain.mlp
        self.norms = norm_of(plain.ln_1), norm_of(plain.ln_2)
        self.of_attention = product_of(attn.c_attn), product_of(attn.c_proj)
        self.train(plain.training)
        self.of_mlp = product_of(mlp.c_fc), mlp.activation, product_of(mlp.c_proj)

    def forward(
        self, x: Tensor, cache: KVCache | None, mask: Tensor | None
    ) -> Tensor:  # [B, T, E] -> [B, T, E]
        (B, T, E), attn = x.shape, self.attn
        norm_1, norm_2 = self.norms
        c_attn, c_proj = self.of_attention
        widen, activation, narrow = self.of_mlp
        x = x.reshape(B * T, E)
        heads = c_attn(norm_1(x)).view(B, T, 3, attn.n_head, -1)
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # each [B, H, T, D]
        if cache is not None:
            key, value = cache.append(attn.layer, key, value)
        mixed = attn.attend(query, key, value, mask, attn.scale)
        x = x + c_proj(mixed.transpose(1, 2).reshape(B * T, -1))
        x = x + narrow(activation(widen(norm_2(x))))
        return x.view(B, T, E)


def lay_bare(model: Module) -> Module:
    """Put a BareBlock in the place of every block inside `model`; returns `model`."""
    for parent in [*model.modules()]:
        for name, child in [*parent.named_children()]:
            if type(child) is Block and can_be_bare(child):
                setattr(parent, name, BareBlock(child))
    return model


def can_be_bare(block: Block) -> bool:
    """Whether it and its parts are the usual ones, and no one has hooked into any."""
    usual = {Block, Attention, MLP, Conv1D, TiledConv1D, LayerNorm}
    kinds = "_forward_hooks", "_forward_pre_hooks", "_backward_hooks"
    hooks = *kinds, "_backward_pre_hooks", "forward"
    return not any(
        type(part) not in usual or any(vars(part).get(name) for name in hooks)
        for part in block.modules()
    )

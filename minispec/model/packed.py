"""The same products from weights in another order: a few rows cost what one costs.

A matrix product of few rows should take as long as reading the weights does, whether it
has one row or nine; the price of verification depends on it (`core/verify.py`). The
libraries that torch calls on a CPU do not keep to it. They first copy the weights, part
by part, into the order that their inner loop wants: with hundreds of rows that costs
nothing, with five it doubles the time. So `pack` puts them into such an order once:

    weight [in, out]      -> tiles [out / 32, in, 32]        each tile lies in one piece
    x @ weight + bias      = x @ tile + bias, for all tiles in one batched product

A tile is read from its first byte to its last, and is so narrow that the library leaves
it as it is. Milliseconds for the products of 12 layers, one thread of a Xeon with
AVX-512, whose second cache does not hold the weights. oneDNN is the order that this
library would choose, through torch's own operators for it:

    rows                       1      2      5      9     13
    width 256, plain          3.9    5.1    5.7    7.4    8.0
               tiles          4.0    3.9    4.3    4.8    5.2
               oneDNN         4.8    5.1    5.4    6.4    7.0
    width 768, plain         26     39     52     68     71
               tiles         29     29     33     40     43
               oneDNN        31     34     37     42     48

Weights that stay in the cache are the other way round: there is nothing to wait for,
and the plain product is faster. So small models stay plain, and so does what is no
float32 on a CPU with MKL, where this was measured. Rounding differs, as between any two
ways to add up. A packed model decodes; train, split or load weights before.

Reference: Goto and van de Geijn 2008, "Anatomy of high-performance matrix
multiplication", which explains packing. Left out: a plain path for long prompts, which
take up to a third longer.
"""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from minispec.model.gpt2 import GPT
from minispec.model.layers import Conv1D, Embedding

WIDTHS = 48, 32  # of a tile; 48 is faster where it divides the outputs
CACHE = 2**22  # bytes of weights that may stay in a core's cache from pass to pass
Module = TypeVar("Module", bound=nn.Module)


@torch.no_grad()
def pack(module: Module, least: int = CACHE) -> Module:
    """Tile every Conv1D inside `module`, and a GPT's head, in place; return `module`.

    One matrix after another, each given back once it is copied: beside the weights,
    there is memory for one matrix at a time, and for a tied head, which needs `wte` for
    the look-up too. Modules of less than `least` bytes stay as they are.
    """
    if sum(p.numel() * p.element_size() for p in module.parameters()) < least:
        return module
    # No list of all: what is replaced must go at once
    for parent in [m for m in module.modules() if not isinstance(m, Conv1D)]:
        for name, child in [*parent.named_children()]:
            if type(child) is Conv1D and can_be_tiled(child.weight):
                setattr(parent, name, TiledConv1D(child))
        if isinstance(parent, GPT) and can_be_tiled(parent.wte.weight, padded=True):
            name = "wte" if parent.config.tie_word_embeddings else "lm_head"
            setattr(parent, name, TiledHead(getattr(parent, name)))
    return module


def can_be_tiled(weight: Tensor, padded: bool = False) -> bool:
    """Float32 on a CPU whose library was measured, of outputs that tiles make up."""
    here = weight.dtype == torch.float32 and weight.device.type == "cpu"
    fits = padded or any(weight.shape[1] % width == 0 for width in WIDTHS)
    return here and fits and torch.backends.mkl.is_available()


class TiledConv1D(nn.Module):
    """A Conv1D in tiles. `state_dict` and `weight` give them in GPT-2's order."""

    def __init__(self, plain: Conv1D) -> None:
        super().__init__()
        self.tiles = nn.Parameter(tiles_of(plain.weight), requires_grad=False)
        self.bias = plain.bias

    def forward(self, x: Tensor) -> Tensor:  # [B, T, in] -> [B, T, out]
        return product(x, self.tiles) + self.bias

    @property
    def weight(self) -> Tensor:  # [in, out], a copy
        return self.tiles.transpose(0, 1).flatten(1)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        destination |= {f"{prefix}weight": self.weight, f"{prefix}bias": self.bias}

    def _load_from_state_dict(self, *args: Any) -> None:
        raise ValueError("load the weights first, then pack the model")


class TiledHead(Embedding):
    """An Embedding that is a head too: a table for the look-up, and tiles of it."""

    tiles: Tensor  # [N, E, width]

    def __init__(self, plain: Embedding) -> None:
        nn.Module.__init__(self)
        self.weight = plain.weight
        (V, E), width = plain.weight.shape, WIDTHS[-1]
        full = V // width * width  # the rows of full tiles; zeros fill up the last
        tiles = plain.weight.new_zeros(-(-V // width), E, width)
        tiles[: V // width] = tile_views(plain.weight[:full].t(), width)
        tiles[V // width :, :, : V - full] = plain.weight[full:].t()
        self.register_buffer("tiles", tiles, persistent=False)

    def scores(self, hidden: Tensor) -> Tensor:  # [B, T, E] -> [B, T, V]
        return product(hidden, self.tiles)[..., : len(self.weight)]


def tiles_of(weight: Tensor) -> Tensor:  # [in, out] -> [N, in, width]
    width = next(width for width in WIDTHS if weight.shape[1] % width == 0)
    return tile_views(weight, width).contiguous()


def tile_views(weight: Tensor, width: int) -> Tensor:  # [in, out] -> [N, in, width]
    return weight.unflatten(1, (weight.shape[1] // width, width)).transpose(0, 1)


def product(x: Tensor, tiles: Tensor) -> Tensor:
    """x @ weight: [B, T, in], [N, in, width] -> [B, T, N * width]."""
    B, T, n_in = x.shape
    rows = x.reshape(1, B * T, n_in).expand(tiles.shape[0], -1, -1)
    return torch.bmm(rows, tiles).transpose(0, 1).reshape(B, T, -1)

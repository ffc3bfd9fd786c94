"""Tensor parallelism: one model over several processes, each with a part of it.

    c_attn   by heads      rank r computes its own heads, and caches their keys, values
    c_proj   by rows       each rank has a part of every sum ...
    c_fc     by columns
    c_proj   by rows       ... and an all-reduce after attention and after the MLP adds
                           the parts: two for each layer and pass
    head     by rows of the vocabulary: one all-gather for each pass

So a step reads 1 / W of the weights on each of W ranks, at once, and waits for 2 L + 1
exchanges. Each costs a fixed latency, however few numbers it moves. A verification of
K + 1 tokens exchanges as often as a step of one token: with speculation fewer passes
also mean fewer exchanges, which is the second reason why production does both.

Every rank runs the same decoding loop with the same seed. The sums that come back are
the same on every rank, bit for bit, so all take the same decisions, and no verdict is
ever sent. A draft model is small: it stays whole on each rank.

Paper: Shoeybi et al. 2019, "Megatron-LM", section 3. Left out: a split of the
embedding, which is looked up and not multiplied; pipelines; overlap of computation and
exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from minispec.model.gpt2 import GPT, Attention, Block
from minispec.model.layers import Conv1D

Group = Any  # a process group of torch.distributed; None is the whole world


def split(model: GPT, group: Group = None) -> GPT:
    """Keep this rank's part of the weights, in place; returns the same model.

    Every rank must hold the same model. Raises ValueError for a packed or bare model,
    and where the heads or the MLP's width cannot be shared out evenly.
    """
    first = model.h[0]
    if type(first) is not Block or type(first.mlp.c_fc) is not Conv1D:
        raise ValueError("split the model first, then pack it and lay it bare")
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    blocks = [cast(Block, block) for block in model.h]
    n_inner = blocks[0].mlp.c_fc.weight.shape[1]
    for name, n in ("heads", model.config.n_head), ("columns of the MLP", n_inner):
        if n % size:
            raise ValueError(
                f"{n} {name} cannot be shared out evenly among {size} processes: start "
                f"a number of processes that divides {n}"
            )
    for block in blocks:
        split_attention(block.attn, rank, size)
        keep_columns(block.mlp.c_fc, [part_of(block.mlp.c_fc, 1, rank, size)])
        keep_rows(block.mlp.c_proj, rank, size)
        for module in (block.attn, block.mlp):
            module.register_forward_hook(adding(group))
    model.head = gathered_head(model, group)  # type: ignore
    return model


def split_attention(attn: Attention, rank: int, size: int) -> None:
    """This rank's heads: their columns of query, key and value, their rows after."""
    E = attn.c_attn.weight.shape[0]
    mine = E // size
    starts = (third * E + rank * mine for third in range(3))
    keep_columns(attn.c_attn, [slice(start, start + mine) for start in starts])
    keep_rows(attn.c_proj, rank, size)
    attn.n_head //= size


def part_of(layer: Conv1D, axis: int, rank: int, size: int) -> slice:
    """The rank-th of `size` equal parts of an axis of the weight."""
    width = layer.weight.shape[axis] // size
    return slice(rank * width, (rank + 1) * width)


@torch.no_grad()
def keep_columns(layer: Conv1D, parts: list[slice]) -> None:
    """Of the outputs, only these: the weight's columns, and their biases."""
    layer.weight = frozen(torch.cat([layer.weight[:, one] for one in parts], dim=1))
    layer.bias = frozen(torch.cat([layer.bias[one] for one in parts]))


@torch.no_grad()
def keep_rows(layer: Conv1D, rank: int, size: int) -> None:
    """Of the inputs, only this rank's; the first rank alone adds the bias."""
    layer.weight = frozen(layer.weight[part_of(layer, 0, rank, size)].clone())
    layer.bias = frozen(layer.bias if rank == 0 else torch.zeros_like(layer.bias))


def frozen(values: Tensor) -> nn.Parameter:
    """Values as a parameter that is not trained."""
    return nn.Parameter(values.detach(), requires_grad=False)


def adding(group: Group) -> Callable[[nn.Module, Any, Tensor], Tensor]:
    """A forward hook that adds up what all ranks computed."""

    def hook(module: nn.Module, inputs: Any, part: Tensor) -> Tensor:
        with exchange():
            dist.all_reduce(part, group=group)
        return part

    return hook


def gathered_head(model: GPT, group: Group) -> Callable[[Tensor], Tensor]:
    """The head by rows of the vocabulary; the last rank's part may be shorter."""
    size, V = dist.get_world_size(group), model.config.vocab_size
    vectors = model.wte if model.config.tie_word_embeddings else model.lm_head
    n = -(-V // size)  # rounded up
    mine = vectors.weight[dist.get_rank(group) * n :][:n]

    def head(hidden: Tensor) -> Tensor:  # [B, T, E] -> [B, T, V]
        part = F.pad(F.linear(hidden, mine), (0, n - len(mine)))
        parts = [torch.empty_like(part) for _ in range(size)]
        with exchange():
            dist.all_gather(parts, part, group=group)
        return torch.cat(parts, dim=-1)[..., :V]

    return head


@contextmanager
def exchange() -> Iterator[None]:
    """A rank that is gone ends the others: ConnectionError with a sentence."""
    try:
        yield
    except RuntimeError as error:
        raise ConnectionError(
            f"rank {dist.get_rank()} lost another rank of its group: see what that one "
            "said, and start all of them again"
        ) from error

"""The rows of `wte` and of the head: is there a head at all, and which rows are tokens.

GPT-2's head is its embedding (tied). Others store the head again, or a different one;
and many round the number of rows up, because kernels like round sizes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from minispec.checkpoint.safetensors_format import CheckpointError
from minispec.gpt2 import GPTConfig


def settle_head(
    config: GPTConfig, stated: dict[str, Any], tensors: dict[str, Tensor]
) -> GPTConfig:
    """Tied unless the weights hold a head that differs from `wte`.

    Many files repeat `wte` as the head; minGPT's models have a head of their own and
    say so nowhere. A head that contradicts its config.json is refused: which of the
    two the model was trained with cannot be known.
    """
    head, wte = tensors.get("lm_head.weight"), tensors.get("wte.weight")
    if head is None or wte is None:
        return config
    if head.shape == wte.shape and torch.equal(head.to(wte.dtype), wte):
        del tensors["lm_head.weight"]
        return replace(config, tie_word_embeddings=True)
    if stated.get("tie_word_embeddings") is True:
        raise CheckpointError(
            "config.json says that the head is tied, but lm_head.weight differs from "
            'wte.weight; set "tie_word_embeddings" to false to use the head, or take '
            "lm_head.weight out"
        )
    return replace(config, tie_word_embeddings=False)


def strip_padding(tensors: dict[str, Tensor], vocab_size: int) -> None:
    """Leave out rows that only round config.json's vocabulary up."""
    for name in ("wte.weight", "lm_head.weight"):
        if name in tensors and is_padded(tensors[name].shape[0], vocab_size):
            tensors[name] = tensors[name][:vocab_size]


def is_padded(n_rows: int, vocab_size: int) -> bool:
    """Whether n_rows is vocab_size rounded up to a multiple of 8, 16, ... or 512.

    nanoGPT, for one, trains 50304 rows for 50257 tokens.
    """
    rounded = {-(-vocab_size // m) * m for m in (8, 16, 32, 64, 128, 256, 512)}
    return n_rows > vocab_size and n_rows in rounded


def cut_vocabulary(
    config: GPTConfig, tensors: dict[str, Tensor], vocab_size: int | None
) -> GPTConfig:
    """The first `vocab_size` rows, as a view."""
    if vocab_size is None:
        return config
    if not 1 <= vocab_size <= config.vocab_size:
        raise CheckpointError(
            f"the tokenizer has {vocab_size} ids and the model {config.vocab_size}: "
            "they do not belong together; take both from one model"
        )
    for name in ("wte.weight", "lm_head.weight"):
        if name in tensors:
            tensors[name] = tensors[name][:vocab_size]
    return replace(config, vocab_size=vocab_size)

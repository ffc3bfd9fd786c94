"""The rows of `wte` and of the head: is there a head at all, and which rows are tokens.

GPT-2's head is its embedding (tied). Others store the head again, or a different one;
and many round the number of rows up, because kernels like round sizes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from minispec.files.errors import CheckpointError
from minispec.model.gpt2 import GPTConfig

WTE, HEAD = "wte.weight", "lm_head.weight"


def settle_head(
    config: GPTConfig, stated: dict[str, Any], tensors: dict[str, Tensor]
) -> GPTConfig:
    """Tied unless the weights hold a head that differs from `wte`.

    Many files repeat `wte` as the head, and some hold the head alone; minGPT's models
    have a head of their own and say so nowhere. A head that contradicts its config.json
    is rejected: nobody can know which of the two the model was trained with.
    """
    tied = stated.get("tie_word_embeddings")
    if WTE not in tensors and HEAD in tensors and tied is not False:
        tensors[WTE] = tensors.pop(HEAD)  # safetensors.torch.save_model stores one name
    head, wte = tensors.get(HEAD), tensors.get(WTE)
    if head is None or wte is None:
        return config
    if head.shape == wte.shape and torch.equal(head.to(wte.dtype), wte):
        del tensors[HEAD]
        return replace(config, tie_word_embeddings=True)
    if tied is True:
        raise CheckpointError(
            "config.json says that the head is tied, but lm_head.weight differs from "
            'wte.weight; set "tie_word_embeddings" to false to use the head, or take '
            "lm_head.weight out"
        )
    return replace(config, tie_word_embeddings=False)


def strip_padding(tensors: dict[str, Tensor], vocab_size: int) -> None:
    """Leave out rows that only round config.json's vocabulary up."""
    for name in (WTE, HEAD):
        tensor = tensors.get(name)
        if tensor is not None and tensor.ndim and is_padded(len(tensor), vocab_size):
            tensors[name] = tensor[:vocab_size]


def is_padded(n_rows: int, vocab_size: int) -> bool:
    """Whether n_rows is vocab_size rounded up to a multiple of 8, 16, ... or 512.

    nanoGPT, for one, trains 50304 rows for 50257 tokens.
    """
    rounded = {-(-vocab_size // m) * m for m in (8, 16, 32, 64, 128, 256, 512)}
    return n_rows > vocab_size and n_rows in rounded


def cut_vocabulary(
    config: GPTConfig, tensors: dict[str, Tensor], vocab_size: int
) -> GPTConfig:
    """The first `vocab_size` rows, as a view, where the rest is padding."""
    if vocab_size < 1 or not is_padded(config.vocab_size, vocab_size):
        raise CheckpointError(
            f"the tokenizer has {vocab_size} ids and the model {config.vocab_size}, "
            "which is not that number rounded up: they do not belong together; take "
            "both from one model"
        )
    for name in (WTE, HEAD):
        if name in tensors:
            tensors[name] = tensors[name][:vocab_size]
    return replace(config, vocab_size=vocab_size)

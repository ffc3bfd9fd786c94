"""One tiny model in checkpoint folders of every form, for the tests of the loader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minispec.files.checkpoint import safetensors_format
from minispec.model.gpt2 import GPT, GPTConfig

from support.strategies import tiny_gpt

# E = 6, two heads, V = 11: no two sizes are equal, so no wrong axis can hide.
CONFIG = GPTConfig(2, 2, 6, vocab_size=11, n_positions=9, n_inner=10)
MODEL = tiny_gpt(CONFIG, seed=1, dtype=torch.float32)
UNTIED = tiny_gpt(replace(CONFIG, tie_word_embeddings=False), 2, dtype=torch.float32)


def state(model: GPT = MODEL) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def prefixed(prefix: str) -> dict[str, Tensor]:
    return {f"{prefix}{key}": tensor for key, tensor in state().items()}


def stated(**changes: Any) -> dict[str, Any]:
    """A config.json as the hub's are: without a word about the head."""
    found = {"model_type": "gpt2", **asdict(CONFIG), **changes}
    if "tie_word_embeddings" not in changes:
        del found["tie_word_embeddings"]
    return {key: value for key, value in found.items() if value is not KeyError}


def lay(
    folder: Path,
    tensors: Mapping[Any, Any],
    config: dict[str, Any] | None = None,
    name: str = "model.safetensors",
) -> Path:
    """A checkpoint folder that holds just this."""
    (folder / "config.json").write_text(json.dumps(config or stated()))
    if name.endswith(".bin"):
        torch.save(tensors, folder / name)
    else:
        safetensors_format.write(tensors, folder / name)
    return folder


def lay_shards(folder: Path, suffix: str) -> Path:
    """Two files and their index, split in the middle; returns the index."""
    stem = "model" if suffix == "safetensors" else "pytorch_model"
    tensors, file_of = prefixed("transformer."), {}
    keys = sorted(tensors)
    for number, part in enumerate((keys[:9], keys[9:]), start=1):
        name = f"{stem}-{number:05}-of-00002.{suffix}"
        lay(folder, {key: tensors[key] for key in part}, name=name)
        file_of |= dict.fromkeys(part, name)
    index = folder / f"{stem}.{suffix}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": file_of}))
    return index


@torch.no_grad()
def logits(model: GPT) -> Tensor:
    return model(torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 10]]))


def same_model(model: GPT, like: GPT = MODEL) -> bool:
    """The same function: bit for bit the same weights under the same configuration."""
    mine, theirs = model.state_dict(), like.state_dict()
    return model.config == like.config and all(
        torch.equal(mine[key], theirs[key]) for key in theirs
    )

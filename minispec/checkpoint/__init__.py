"""A checkpoint folder <-> `GPT`, with every check on the way.

    config.json -> GPTConfig ---.
                                 >- agree? -> GPT on the meta device, tensors assigned
    weights -> names, layout ---'

The model is built without memory and the mapped tensors become its parameters, so
float32 weights are loaded without one copy. Each step has its file: the formats
(`safetensors_format.py`, `pickle_format.py`), the files (`weight_files.py`), names and
layouts (`key_names.py`), the configuration (`config.py`), head and padding
(`vocabulary_rows.py`).

Accepted beside GPT-2's own files: shards, pickles, prefixes, stored masks, untied
heads, padded vocabularies, any float type, and nn.Linear layouts ([out, in]; nanoGPT,
minGPT), which are told apart by the shape of `c_attn`. Refused is all else, with a
CheckpointError that says what to do.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from torch import Tensor

from minispec.attention import AttentionForm, fused_attention
from minispec.checkpoint import safetensors_format
from minispec.checkpoint.config import config_from_json, config_to_json, read_json
from minispec.checkpoint.key_names import canonical_names, check_shapes, conv1d_layout
from minispec.checkpoint.safetensors_format import CheckpointError
from minispec.checkpoint.vocabulary_rows import (
    cut_vocabulary,
    settle_head,
    strip_padding,
)
from minispec.checkpoint.weight_files import read_weights
from minispec.gpt2 import GPT, GPTConfig

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def load(
    folder: Path | str,
    dtype: torch.dtype = torch.float32,
    attend: AttentionForm = fused_attention,
    vocab_size: int | None = None,
) -> GPT:
    """The model of a folder, in evaluation mode.

    Weights of type `dtype` stay where the memory map has them; others are converted
    (while they are, both forms take memory).

    `vocab_size` is how many tokens there really are (the tokenizer's `vocab_size`): of
    a padded vocabulary the rows beyond are left out. No logit exists for them then,
    which is the distribution that masking them to -inf gives, and none can be emitted.
    """
    folder = Path(folder)
    if dtype not in FLOATS:
        raise CheckpointError(f"dtype must be one of {FLOATS}, got {dtype}")
    config, tensors = read_folder(folder, vocab_size)
    with torch.device("meta"):
        model = GPT(config, attend)
    for name in tensors:
        tensors[name] = tensors[name].to(dtype)  # itself, where the type is right
    model.load_state_dict(tensors, assign=True)
    return model.eval()


def save(
    model: GPT,
    folder: Path | str,
    dtype: torch.dtype | None = None,
    eos_id: int | None = None,
) -> None:
    """Write `config.json` and `model.safetensors`, as transformers loads them.

    `dtype` on disk is the model's own unless given. `eos_id` ends a text; by default it
    is the last id, as in GPT-2. Files that are there are replaced, which does not touch
    a model that was loaded from them.
    """
    folder, V = Path(folder), model.config.vocab_size
    dtype = model.wte.weight.dtype if dtype is None else dtype
    eos_id = V - 1 if eos_id is None else eos_id
    if dtype not in FLOATS:
        raise CheckpointError(f"dtype must be one of {FLOATS}, got {dtype}")
    if not 0 <= eos_id < V:
        raise CheckpointError(f"eos_id must be from 0 to {V - 1}, got {eos_id}")
    folder.mkdir(parents=True, exist_ok=True)
    # transformers puts `transformer.` before all but the head; the loader takes it off.
    tensors = {
        name if name.startswith("lm_head.") else f"transformer.{name}": tensor.to(dtype)
        for name, tensor in model.state_dict().items()
    }
    safetensors_format.write(tensors, folder / "model.safetensors")
    stated = config_to_json(model.config, dtype, eos_id)
    part = folder / f"config.json.{os.getpid()}.part"
    part.write_text(json.dumps(stated, indent=2) + "\n", encoding="utf-8")
    os.replace(part, folder / "config.json")


def read_folder(
    folder: Path, vocab_size: int | None = None
) -> tuple[GPTConfig, dict[str, Tensor]]:
    """What a folder states and holds, found to agree; no value is read or converted.

    The tensors have GPT-2's names and layout and are those of the file, of any float
    type. A head that repeats `wte` (this much is read) is left out, and so are rows
    from `vocab_size` on. Every CheckpointError names the folder.
    """
    if not folder.is_dir():
        raise CheckpointError(
            f"no folder {folder}; fetch a model with scripts/download_weights.py"
        )
    try:
        config, tensors = _read_agreeing(folder)
        return cut_vocabulary(config, tensors, vocab_size), tensors
    except CheckpointError as error:
        at = "" if str(folder) in str(error) else f"{folder}: "
        raise CheckpointError(f"{at}{error}") from error


def _read_agreeing(folder: Path) -> tuple[GPTConfig, dict[str, Tensor]]:
    """The whole folder, padding included where config.json counts it."""
    stated = read_json(folder / "config.json")
    config = config_from_json(stated, folder / "config.json")
    tensors = canonical_names(read_weights(folder))
    _check_types(tensors)
    tensors = conv1d_layout(tensors, config.n_embd)
    config = settle_head(config, stated, tensors)
    strip_padding(tensors, config.vocab_size)
    check_shapes(tensors, config)
    return config, tensors


def _check_types(tensors: dict[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOATS:
            raise CheckpointError(
                f"{name} has type {tensor.dtype}, expected one of {FLOATS}; take the "
                "model before it was quantized"
            )

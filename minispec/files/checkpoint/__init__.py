"""A checkpoint folder <-> `GPT`, with every check on the way.

    config.json -> GPTConfig -> GPT on the meta device ---.
                                                           >- agree? -> assigned
    weights -> names, layout, head, padding --------------'

The model is built without memory and the mapped tensors become its parameters, so
float32 weights are loaded without one copy. To read in this order: the configuration
(`config.py`), the files (`weight_files.py`) and their formats (`safetensors_format.py`,
`safetensors_header.py`, `pickle_format.py`, `pickle_opcodes.py`, `recognition.py`),
names and layouts (`key_names.py`), head and padding (`vocabulary_rows.py`), and the
tokenizer for others (`tokenizer_export.py`).

Accepted beside GPT-2's own files: shards, pickles, prefixes, stored masks, untied
heads, padded vocabularies, any float type, and nn.Linear layouts ([out, in]; nanoGPT,
minGPT), which are told apart by the shape of `c_attn`. Anything else raises
CheckpointError, which says what to do.
"""

from __future__ import annotations

import json
import operator
from pathlib import Path
from typing import NamedTuple, SupportsIndex

import torch
from torch import Tensor

from minispec.files.checkpoint import config as configs
from minispec.files.checkpoint import key_names, safetensors_format, vocabulary_rows
from minispec.files.checkpoint.weight_files import read_weights
from minispec.files.errors import CheckpointError
from minispec.files.whole import replacing
from minispec.model.attention import AttentionForm, fused_attention
from minispec.model.gpt2 import GPT, GPTConfig

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


class Contents(NamedTuple):
    """What a folder states and holds, found to agree."""

    model: GPT  # on the meta device: shapes without values
    tensors: dict[str, Tensor]  # its weights, of any float type
    stored: dict[str, Tensor]  # all that the files hold, under their names there


def load(
    folder: Path | str,
    dtype: torch.dtype = torch.float32,
    attend: AttentionForm = fused_attention,
    vocab_size: int | None = None,
) -> GPT:
    """The model of a folder, in evaluation mode. Raises CheckpointError.

    Weights of type `dtype` stay where the memory map has them; others are converted
    (while they are, both forms take memory).

    `vocab_size` is how many tokens there really are (the tokenizer's `vocab_size`): of
    a padded vocabulary the rows beyond are left out. No logit exists for them then,
    which is the distribution that masking them to -inf gives, and none can be emitted.
    """
    _check_dtype(dtype)
    model, tensors, _ = read_folder(folder, vocab_size, attend)
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
    a model that was loaded from them. The model may be wrapped (torch.compile).

    Raises CheckpointError for a model whose weights are not those of its config, and
    OSError where nothing can be written.
    """
    folder, V = Path(folder), model.config.vocab_size
    dtype = model.wte.weight.dtype if dtype is None else dtype
    _check_dtype(dtype)
    eos_id = V - 1 if eos_id is None else _eos_id(eos_id, V)
    stated = json.dumps(configs.config_to_json(model.config, dtype, eos_id), indent=2)
    weights = key_names.canonical_names(model.state_dict())
    key_names.check_weights(weights, _empty(model.config))
    if any(tensor.is_meta for tensor in weights.values()):
        raise CheckpointError("a model on the meta device has no weights; load them")
    # transformers puts `transformer.` before all but the head; the loader takes it off.
    tensors = {
        name if name.startswith("lm_head.") else f"transformer.{name}": tensor.to(dtype)
        for name, tensor in weights.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    safetensors_format.write(tensors, folder / "model.safetensors")
    with replacing(folder / "config.json") as part:
        part.write_text(stated + "\n", encoding="utf-8")


def read_folder(
    folder: Path | str,
    vocab_size: int | None = None,
    attend: AttentionForm = fused_attention,
) -> Contents:
    """What a folder states and holds; no value is read or converted.

    The tensors have GPT-2's names and layout and are those of the file. A head that
    repeats `wte` (this much is read) is left out, and so are rows from `vocab_size` on.
    Every CheckpointError names the folder.
    """
    folder = Path(folder)
    try:
        if not folder.is_dir():
            raise CheckpointError(
                f"no folder {folder}; fetch a model with scripts/download_weights.py"
            )
        return _read_agreeing(folder, vocab_size, attend)
    except OSError as error:
        why = f"cannot read {error.filename or folder}: {error.strerror}"
        raise CheckpointError(f"{why}; check the path and its permissions") from error
    except CheckpointError as error:
        at = "" if str(folder) in str(error) else f"{folder}: "
        raise CheckpointError(f"{at}{error}") from error


def stated_eos_ids(folder: Path | str) -> tuple[int, ...]:
    """The ids that end a text, as the folder's JSON files say; () where they do not.

    generation_config.json comes before config.json, as in transformers.
    """
    for name in ("generation_config.json", "config.json"):
        path = Path(folder) / name
        if path.is_file() and (ids := configs.eos_ids(configs.read_json(path), path)):
            return ids
    return ()


def _read_agreeing(
    folder: Path, vocab_size: int | None, attend: AttentionForm
) -> Contents:
    stated = configs.read_json(folder / "config.json")
    config = configs.config_from_json(stated, folder / "config.json")
    stored = read_weights(folder)
    tensors = key_names.canonical_names(stored)
    _check_types(tensors)
    key_names.check_layers(tensors, config.n_layer)
    tensors = key_names.conv1d_layout(tensors, config.n_embd)
    config = vocabulary_rows.settle_head(config, stated, tensors)
    vocabulary_rows.strip_padding(tensors, config.vocab_size)
    model = _empty(config, attend)
    key_names.check_weights(tensors, model)
    if vocab_size not in (None, config.vocab_size):
        config = vocabulary_rows.cut_vocabulary(config, tensors, vocab_size)
        model = _empty(config, attend)
    return Contents(model, tensors, stored)


def _empty(config: GPTConfig, attend: AttentionForm = fused_attention) -> GPT:
    with torch.device("meta"):
        return GPT(config, attend)


def _eos_id(value: SupportsIndex, vocab_size: int) -> int:
    """A token id, of any type of whole numbers; True is none."""
    try:
        found = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        found = -1
    if not 0 <= found < vocab_size:
        raise CheckpointError(
            f"eos_id must be a whole number from 0 to {vocab_size - 1}, got {value!r}"
        )
    return found


def _check_types(tensors: dict[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOATS:
            raise CheckpointError(
                f"{name} has type {tensor.dtype}, expected one of {FLOATS}; take the "
                "model before it was quantized"
            )


def _check_dtype(dtype: torch.dtype) -> None:
    if dtype not in FLOATS:
        raise CheckpointError(f"dtype must be one of {FLOATS}, got {dtype}")

"""`config.json` <-> `GPTConfig`: what a checkpoint says about its own shape.

Everything that changes the function is either understood or rejected. What changes
rounding alone (`reorder_and_upcast_attn`), training alone (the dropouts) or nothing
(`n_ctx` beside `n_positions`) is passed over.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from minispec.files.errors import CheckpointError, regular, shown
from minispec.model.gpt2 import GPTConfig

ALIASES = {  # other names that GPT2Config takes; n_ctx is the older one of n_positions
    "n_layer": ("num_hidden_layers",),
    "n_head": ("num_attention_heads",),
    "n_embd": ("hidden_size",),
    "vocab_size": (),
    "n_positions": ("max_position_embeddings", "n_ctx"),
}
OPTIONAL = {
    "n_inner": int,
    "activation_function": str,
    "layer_norm_epsilon": float,
    "scale_attn_by_inverse_layer_idx": bool,
    "tie_word_embeddings": bool,
}
LONGEST = 10_000_000  # bytes of JSON; the index of a large model's shards has a tenth
LARGEST = 2**24  # a size beyond it is a mistake, and nothing must be built for it
SYNONYMS = {"gelu_fast": "gelu_new", "gelu_pytorch_tanh": "gelu_new"}
# Switches whose other setting is another model: the only value that is computed here.
FIXED = {
    "model_type": "gpt2",
    "scale_attn_weights": True,
    "add_cross_attention": False,
}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; a byte order mark before it is passed over."""
    try:
        stated = json.loads(regular(path, LONGEST).read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise CheckpointError(
            f"cannot read {path} ({shown(why, 150)}); expected a JSON object: fetch it "
            "with scripts/download_weights.py"
        ) from error
    if not isinstance(stated, dict):
        raise CheckpointError(f"{path} must hold a JSON object; download it again")
    return stated


def config_from_json(stated: dict[str, Any], source: Path) -> GPTConfig:
    """The configuration that `config.json` states.

    The sizes must be there; of the other keys, an absent one has GPT-2's value.
    """
    for key, value in FIXED.items():
        if stated.get(key, value) != value:
            raise CheckpointError(
                f"{source} says {key} = {shown(repr(stated[key]))}, only {value!r} is "
                "supported here; use a GPT-2 model"
            )
    fields: dict[str, Any] = {key: _size(stated, key, source) for key in ALIASES}
    for key, kind in OPTIONAL.items():
        if stated.get(key) is not None:
            fields[key] = _typed(stated, key, kind, source)
    if "n_inner" in fields:
        fields["n_inner"] = _size(stated, "n_inner", source)
    act = fields.get("activation_function", "gelu_new")
    fields["activation_function"] = SYNONYMS.get(act, act)
    try:
        return GPTConfig(**fields)
    except ValueError as error:
        raise CheckpointError(f"{source}: {error}; use another model") from error


def config_to_json(
    config: GPTConfig, dtype: torch.dtype, eos_id: int
) -> dict[str, Any]:
    """What transformers' `GPT2LMHeadModel` needs to build the same model."""
    stated = {key: getattr(config, key) for key in (*ALIASES, *OPTIONAL)}
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        **stated,
        "bos_token_id": eos_id,  # GPT-2 has one mark for both ends of a text
        "eos_token_id": eos_id,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }


def eos_ids(stated: dict[str, Any], source: Path) -> tuple[int, ...]:
    """The ids in `eos_token_id`, which may be one, a list or absent."""
    value = stated.get("eos_token_id")
    if value is None:
        return ()
    ids = value if isinstance(value, list) else [value]
    if not all(type(i) is int and 0 <= i <= LARGEST for i in ids):
        raise CheckpointError(
            f"{source}: eos_token_id must be an id or a list of ids, got "
            f"{shown(repr(value))}; correct it"
        )
    return tuple(dict.fromkeys(ids))


def _size(stated: dict[str, Any], key: str, source: Path) -> int:
    """A whole number from 1 on, under the name GPT-2 has for it or an alias."""
    names = [name for name in (key, *ALIASES.get(key, ())) if name in stated]
    if not names:
        raise CheckpointError(
            f"{source} lacks {key}; add it, or take a whole GPT-2 config.json"
        )
    value = _typed(stated, names[0], int, source)
    if not 1 <= value <= LARGEST:
        raise CheckpointError(
            f"{source}: {names[0]} must be at least 1 and at most {LARGEST}, got "
            f"{shown(value)}; download it again"
        )
    return value


def _typed(stated: dict[str, Any], key: str, kind: type, source: Path) -> Any:
    """One value, of the right JSON type; an integer will do for a number."""
    value = stated[key]
    kinds = (int, float) if kind is float else (kind,)
    if type(value) not in kinds:  # type, not isinstance: true is an int to Python
        raise CheckpointError(
            f"{source}: {key} must be of type {kind.__name__}, got "
            f"{shown(repr(value))}; download it again"
        )
    return value

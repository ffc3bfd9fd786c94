"""`config.json` <-> `GPTConfig`: what a checkpoint says about its own shape.

Everything that changes the function is either understood or refused. What changes
rounding alone (`reorder_and_upcast_attn`), training alone (the dropouts) or nothing
(`n_ctx` beside `n_positions`) is passed over.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from minispec.checkpoint.safetensors_format import CheckpointError
from minispec.gpt2 import GPTConfig

SIZES = ("n_layer", "n_head", "n_embd", "vocab_size", "n_positions")
OPTIONAL = {
    "n_inner": int,
    "activation_function": str,
    "layer_norm_epsilon": float,
    "scale_attn_by_inverse_layer_idx": bool,
    "tie_word_embeddings": bool,
}
SYNONYMS = {"gelu_fast": "gelu_new", "gelu_pytorch_tanh": "gelu_new"}
# Switches whose other setting is another model: the only value that is computed here.
FIXED = {
    "model_type": "gpt2",
    "scale_attn_weights": True,
    "add_cross_attention": False,
}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        stated = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)[:150]
        raise CheckpointError(
            f"cannot read {path} ({why}); expected a JSON object: fetch it with "
            "scripts/download_weights.py"
        ) from error
    if not isinstance(stated, dict):
        raise CheckpointError(f"{path} must hold a JSON object; download it again")
    return stated


def config_from_json(stated: dict[str, Any], source: Path) -> GPTConfig:
    """The configuration that `config.json` states; absent keys are GPT-2's defaults."""
    for key, value in FIXED.items():
        if stated.get(key, value) != value:
            raise CheckpointError(
                f"{source} says {key} = {stated[key]!r:.80}, only {value!r} is "
                "supported here; use a GPT-2 model"
            )
    if "n_positions" not in stated and "n_ctx" in stated:  # the older name
        stated = {**stated, "n_positions": stated["n_ctx"]}
    fields = {key: _typed(stated, key, int, source) for key in SIZES}
    for key, kind in OPTIONAL.items():
        if stated.get(key) is not None:
            fields[key] = _typed(stated, key, kind, source)
    _check_epsilon(fields.get("layer_norm_epsilon", 0), source)
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
    stated = {key: getattr(config, key) for key in (*SIZES, *OPTIONAL)}
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        **stated,
        "bos_token_id": eos_id,  # GPT-2 has one mark for both ends of a text
        "eos_token_id": eos_id,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }


def _check_epsilon(epsilon: float, source: Path) -> None:
    """Below 0 the norm's square root may not exist; NaN is in no range at all."""
    if not 0 <= epsilon < 1:
        raise CheckpointError(
            f"{source}: layer_norm_epsilon must be from 0 to below 1, got "
            f"{epsilon!r:.80}; download it again"
        )


def _typed(stated: dict[str, Any], key: str, kind: type, source: Path) -> Any:
    """One value, of the right JSON type; an integer will do for a number."""
    value = stated.get(key)
    kinds = (int, float) if kind is float else (kind,)
    if type(value) not in kinds:  # type, not isinstance: true is an int to Python
        raise CheckpointError(
            f"{source}: {key} must be of type {kind.__name__}, got {value!r:.80}; "
            "download it again"
        )
    return value

"""One name and one layout for every weight, whatever the checkpoint calls it.

GPT-2's own checkpoints say `h.0.attn.c_attn.weight` and store matrices [in, out].
Others put `transformer.` before it, or `_orig_mod.` (torch.compile) or `module.` (data
parallel training), store causal masks among the weights, call the head
`lm_head.decoder.weight`, or store matrices [out, in] because they were `nn.Linear`
(nanoGPT, minGPT). What comes out is the key tree of `gpt2.GPT`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torch import Tensor

from minispec.checkpoint.safetensors_format import CheckpointError
from minispec.gpt2 import GPTConfig

PREFIXES = ("_orig_mod.", "module.", "transformer.")
# Masks, not weights: `attn.bias` is triangular, `masked_bias` the -10000 beside it. A
# test by `endswith("attn.bias")` would take `c_attn.bias` for one.
MASK = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")
MATRICES = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")


def canonical_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors under GPT-2's names, without masks."""
    found: dict[str, Tensor] = {}
    source: dict[str, str] = {}
    for key, tensor in tensors.items():
        name = canonical_name(key)
        if MASK.fullmatch(name):
            continue
        if name in found:
            raise CheckpointError(
                f"{source[name]} and {key} both mean {name}; keep only one of them"
            )
        found[name], source[name] = tensor, key
    return found


def canonical_name(key: str) -> str:
    """GPT-2's name of one key."""
    while key.startswith(PREFIXES):
        key = key.split(".", 1)[1]
    return "lm_head.weight" if key == "lm_head.decoder.weight" else key


def conv1d_layout(tensors: dict[str, Tensor], width: int) -> dict[str, Tensor]:
    """Every matrix as [in, out]; those of an nn.Linear model become transposed views.

    `c_attn` decides for the model, since [E, 3E] and [3E, E] differ. `attn.c_proj` is
    square: its own shape says nothing, and a missed transposition would go unseen.
    """
    first = tensors.get("h.0.attn.c_attn.weight")
    if first is None or tuple(first.shape) != (3 * width, width):
        return tensors
    return {
        name: tensor.t() if is_matrix(name) and tensor.ndim == 2 else tensor
        for name, tensor in tensors.items()
    }


def is_matrix(name: str) -> bool:
    return name.endswith(tuple(f"{matrix}.weight" for matrix in MATRICES))


def expected_shapes(config: GPTConfig) -> dict[str, tuple[int, ...]]:
    """Every key of a model of this configuration, and its shape."""
    E, inner = config.n_embd, config.n_inner or 4 * config.n_embd
    linear = {
        "attn.c_attn": (E, 3 * E),
        "attn.c_proj": (E, E),
        "mlp.c_fc": (E, inner),
        "mlp.c_proj": (inner, E),
    }
    shapes: dict[str, tuple[int, ...]] = {
        "wte.weight": (config.vocab_size, E),
        "wpe.weight": (config.n_positions, E),
    }
    for layer in range(config.n_layer):
        for norm in ("ln_1", "ln_2"):
            shapes[f"h.{layer}.{norm}.weight"] = shapes[f"h.{layer}.{norm}.bias"] = (E,)
        for name, shape in linear.items():
            shapes[f"h.{layer}.{name}.weight"] = shape
            shapes[f"h.{layer}.{name}.bias"] = shape[1:]
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = (E,)
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, E)
    return shapes


def check_shapes(tensors: Mapping[str, Tensor], config: GPTConfig) -> None:
    """Refuse weights that are not exactly those of the configuration."""
    _check_layers(tensors, config.n_layer)
    shapes = expected_shapes(config)
    missing = [name for name in shapes if name not in tensors]
    extra = [name for name in tensors if name not in shapes]
    if missing:
        bias_free = all(name.endswith(".bias") for name in missing)
        hint = "; a model trained without biases needs zeros there" if bias_free else ""
        raise CheckpointError(
            f"the weights lack {_some(missing)}; expected {missing[0]} with shape "
            f"{_text(shapes[missing[0]])}{hint}; take the whole checkpoint"
        )
    if extra:
        raise CheckpointError(
            f"unknown weights: {_some(extra)} with shape "
            f"{_text(tensors[extra[0]].shape)}, expected the keys of GPT-2 alone; is "
            "this another architecture, or an adapter to be merged first?"
        )
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape:
            raise CheckpointError(
                f"{name} has shape {_text(tensors[name].shape)}, but config.json means "
                f"{_text(shape)}; take config.json and weights of the same model"
            )


def _check_layers(tensors: Mapping[str, Tensor], n_layer: int) -> None:
    """Before anything is built for it: a wrong n_layer may be a billion.

    The numbers are counted, not believed: the highest may be a billion too.
    """
    matches = (re.match(r"h\.(\d+)\.", name) for name in tensors)
    layers = len({match[1] for match in matches if match})
    if layers != n_layer:
        raise CheckpointError(
            f"config.json means n_layer {n_layer}, but the weights have {layers} "
            "layers (h.0, h.1, ...); take config.json and weights of the same model"
        )


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(f"{name:.80}" for name in names[:3]) + rest


def _text(shape: tuple[int, ...]) -> str:
    return str(list(shape))

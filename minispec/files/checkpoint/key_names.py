"""One name and one layout for every weight, whatever the checkpoint calls it.

GPT-2's own checkpoints say `h.0.attn.c_attn.weight` and store matrices [in, out].
Others put something before it (`transformer.`, `base_model.model.`), keep the name of
a wrapper in it (`_orig_mod.` of torch.compile, `module.` of data parallel training),
store causal masks among the weights, call the head `lm_head.decoder.weight`, or store
matrices [out, in] because they were `nn.Linear` (nanoGPT, minGPT). What comes out has
the keys of `gpt2.GPT`.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping, Sequence

from torch import Tensor

from minispec.files.errors import CheckpointError, shown
from minispec.model.gpt2 import GPT

WRAPPERS = re.compile(
    r"(?:(?<=\.)|^)(?:_orig_mod|module|_forward_module|_fsdp_wrapped_module"
    r"|_checkpoint_wrapped_module)\."
)
# Masks, not weights: `attn.bias` is triangular, `masked_bias` the -10000 beside it. A
# test by `endswith("attn.bias")` would take `c_attn.bias` for one.
MASK = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")
LAYER = re.compile(r"h\.(\d+)\.")
HEADS = ("lm_head.weight", "lm_head.decoder.weight")
MATRICES = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")


def canonical_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors under GPT-2's names, without masks."""
    found: dict[str, Tensor] = {}
    source: dict[str, str] = {}
    for key, name in zip(tensors, plain_names(list(tensors))):
        if MASK.fullmatch(name):
            continue
        if name in found:
            raise CheckpointError(
                f"{shown(source[name])} and {shown(key)} both mean {shown(name)}; keep "
                "only one of them"
            )
        found[name], source[name] = tensors[key], key
    return found


def plain_names(keys: Sequence[str]) -> list[str]:
    """The keys without wrappers and without the prefix that all share, but the head."""
    names = [WRAPPERS.sub("", key) for key in keys]
    names = _without(shared_prefix(names), names)
    names = _without(shared_prefix([n for n in names if n not in HEADS]), names)
    names = _without("transformer.", names)  # where some have it and others do not
    return ["lm_head.weight" if name in HEADS else name for name in names]


def shared_prefix(names: list[str]) -> str:
    """Whole parts that begin every name, where there are layers; never `h.` itself."""
    parts = os.path.commonprefix(names).split(".")[:-1]
    if not any(re.search(r"(^|\.)h\.\d+\.", name) for name in names):
        return ""
    kept = parts[: parts.index("h")] if "h" in parts else parts
    return "".join(f"{part}." for part in kept)


def _without(prefix: str, names: list[str]) -> list[str]:
    return [name.removeprefix(prefix) for name in names]


def conv1d_layout(tensors: dict[str, Tensor], width: int) -> dict[str, Tensor]:
    """Every matrix as [in, out]; those of an nn.Linear model become transposed views.

    `c_attn` decides for the model, since [E, 3E] and [3E, E] differ. `attn.c_proj` is
    square: its own shape says nothing, and a missed transposition would go unseen.
    """
    first = tensors.get("h.0.attn.c_attn.weight")
    if first is None or tuple(first.shape) != (3 * width, width):
        return tensors
    matrices = tuple(f"{matrix}.weight" for matrix in MATRICES)
    return {
        name: tensor.t() if name.endswith(matrices) and tensor.ndim == 2 else tensor
        for name, tensor in tensors.items()
    }


def check_layers(tensors: Mapping[str, Tensor], n_layer: int) -> None:
    """Before a model is built: a wrong n_layer may be a billion.

    The layers are counted; the numbers in their names are not trusted (one may be a
    billion).
    """
    layers = len({match[1] for match in map(LAYER.match, tensors) if match})
    if not layers:
        some = f"such as {shown(next(iter(tensors)))}" if tensors else "none at all"
        raise CheckpointError(
            "the weights have no layers: expected keys such as h.0.attn.c_attn.weight, "
            f"got {some}; is this another architecture?"
        )
    if layers != n_layer:
        raise CheckpointError(
            f"config.json means n_layer {n_layer}, but the weights have {layers} "
            "layers (h.0, h.1, ...); take config.json and weights of the same model"
        )


def check_weights(tensors: Mapping[str, Tensor], model: GPT) -> None:
    """Raise CheckpointError unless these are the weights of this model, all of them."""
    expected = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    missing = [name for name in expected if name not in tensors]
    extra = [name for name in tensors if name not in expected]
    if missing:
        bias_free = all(name.endswith(".bias") for name in missing)
        hint = "; a model trained without biases needs zeros there" if bias_free else ""
        raise CheckpointError(
            f"the weights lack {_some(missing)}; expected {missing[0]} with shape "
            f"{list(expected[missing[0]])}{hint}; take the whole checkpoint"
        )
    if extra:
        raise CheckpointError(
            f"unknown weights: {_some(extra)} with shape "
            f"{shown(list(tensors[extra[0]].shape))}, expected GPT-2's keys alone; "
            "is this another architecture, or an adapter to be merged first?"
        )
    for name, shape in expected.items():
        if tuple(tensors[name].shape) != shape:
            raise CheckpointError(
                f"{name} has shape {shown(list(tensors[name].shape))}, but config.json "
                f"means {list(shape)}; take config.json and weights of the same model"
            )


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(shown(name) for name in names[:3]) + rest

"""A head's folder: `config.json` and `model.safetensors`, and whose head it is.

    {"kind": "eagle", "sizes": {"width": 128, "n_head": 4},
     "target": {"n_layer": 12, "n_embd": 256, "vocab_size": 1024, "fingerprint": "..."}}

A head of another target has the right shapes, if that target has, and only drafts
badly. So the folder states a fingerprint of the target, and loading compares it.
Anything that does not fit raises CheckpointError before a text begins.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from minispec.drafters.heads import Head
from minispec.files.checkpoint import FLOATS, safetensors_format
from minispec.files.checkpoint.config import read_json
from minispec.files.errors import CheckpointError, shown
from minispec.files.whole import replacing
from minispec.model.gpt2 import GPT

HOMES = {  # where the class of each kind of head is; imported when it is asked for
    "medusa": ("medusa", "Medusa"),
    "mtp": ("mtp", "MTP"),
    "independent": ("mtp", "IndependentHeads"),
    "eagle": ("eagle", "Eagle"),
    "eagle3": ("eagle", "Eagle3"),
    "early-exit": ("early_exit", "EarlyExit"),
    "block-diffusion": ("block_diffusion", "BlockDiffusion"),
}
COUNTS, MOST = ("n_heads", "n_modules", "n_layer"), 64  # of modules, built one by one
LARGEST = 2**16  # a size beyond it is a mistake, and nothing must be built for it
AGAIN = "train it again with scripts/train_heads.py, or copy it again"
DOWNLOAD = "fetch it with scripts/download_weights.py", "download it again"
Read = TypeVar("Read")


def fingerprint(target: GPT) -> str:
    """Sixteen hex digits that tell this target from others: of its outer weights.

    Embeddings and the last norm suffice, since training moves them all, and they are
    the ones that no conversion in place touches. Rounded to bfloat16, so that it is the
    same whatever type the target was loaded in.
    """
    digest = hashlib.sha256()
    for weights in (target.wte.weight, target.wpe.weight, *target.ln_f.parameters()):
        rounded = weights.detach().bfloat16().cpu().contiguous()
        digest.update(rounded.view(torch.int16).numpy().tobytes())
    return digest.hexdigest()[:16]


def save_head(head: Head, folder: Path | str, target: GPT) -> None:
    """Write `config.json` and `model.safetensors`, in float16.

    Raises OSError, and CheckpointError for weights that float16 cannot hold.
    """
    weights = {name: tensor.half() for name, tensor in head.state_dict().items()}
    check_weights(head, weights, torch.float16)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    safetensors_format.write(weights, folder / "model.safetensors")
    stated = {"kind": head.kind, "sizes": head.sizes, "target": _description(target)}
    with replacing(folder / "config.json") as part:
        part.write_text(json.dumps(stated, indent=2) + "\n", encoding="utf-8")


def load_head(folder: Path | str, target: GPT, kinds: Collection[str] = HOMES) -> Head:
    """The head of a folder, for this target and in its type, in evaluation mode.

    Raises CheckpointError for a folder that is missing or faulty, for a head of a kind
    that is not among `kinds`, and for one that was trained for another target.
    """
    folder = Path(folder)
    if not is_head(folder):
        raise CheckpointError(
            f"{folder} holds no head: expected a config.json that states its kind, and "
            "model.safetensors, as scripts/train_heads.py writes them"
        )
    stated = read_of_head(read_json, folder / "config.json")
    try:
        check_target(stated.get("target"), target)
        head = _empty(stated, target, kinds)
        weights = read_of_head(safetensors_format.read, folder / "model.safetensors")
        check_weights(head, weights, target.wte.weight.dtype)
    except CheckpointError as error:
        at = "" if str(folder) in str(error) else f"{folder}: "
        raise CheckpointError(f"{at}{error}") from error
    like = target.wte.weight
    head.load_state_dict({n: t.to(like) for n, t in weights.items()}, assign=True)
    return head.eval().requires_grad_(False)


def read_of_head(read: Callable[[Path], Read], path: Path) -> Read:
    """What is in a file of a head, which, unlike a model, cannot be downloaded."""
    try:
        return read(path)
    except CheckpointError as error:
        text = str(error)
        for advice in DOWNLOAD:
            text = text.replace(advice, AGAIN)
        raise CheckpointError(text) from error


def is_head(folder: Path | str) -> bool:
    """Whether its config.json states a kind, or, where it is damaged, mentions one."""
    config = Path(folder) / "config.json"
    try:
        return config.is_file() and "kind" in read_json(config)
    except CheckpointError:
        return b'"kind"' in config.read_bytes()


def check_no_head(folder: Path | str) -> None:
    """Raise CheckpointError where a model is needed and a head is given."""
    if is_head(folder):
        kind = read_of_head(read_json, Path(folder) / "config.json")["kind"]
        raise CheckpointError(
            f"{folder} is a head of kind {shown(kind)}, not a model: give it to "
            f"generate, compare or trace as --draft, and add --drafter {shown(kind)}"
        )


def check_target(stated: Any, target: GPT) -> None:
    """Raise CheckpointError unless this describes the target."""
    ours = _description(target)
    stated = stated if isinstance(stated, dict) else {}
    for name, value in ours.items():
        if stated.get(name) != value:
            has = shown(repr(stated.get(name)))
            raise CheckpointError(
                f"the head belongs to a target of {name} {has} and this one has "
                f"{value!r}: take the head that was trained for this target"
            )


def check_weights(head: Head, weights: dict[str, Tensor], dtype: torch.dtype) -> None:
    """Raise CheckpointError unless these are the head's weights, finite in `dtype`."""
    expected = {name: list(t.shape) for name, t in head.state_dict().items()}
    for name in [*expected, *weights]:
        if name not in weights:
            what = f"lacks {name}"
        elif name not in expected:
            what = f"has {shown(name)}, which is unknown"
        elif list(weights[name].shape) != expected[name]:
            shape = shown(list(weights[name].shape))
            what = f"has {name} of shape {shape}, expected {expected[name]}"
        elif weights[name].dtype not in FLOATS:
            what = f"has {name} of type {weights[name].dtype}, expected float16 or so"
        elif not weights[name].to(dtype).isfinite().all():
            what = f"has NaN or infinity in {name} as {dtype}"
        else:
            continue
        raise CheckpointError(f"the head {what}: {AGAIN}")


def _description(target: GPT) -> dict[str, int | str]:
    """What config.json says of the target."""
    config = target.config
    sizes = {name: getattr(config, name) for name in ("n_layer", "n_embd")}
    return {
        **sizes, "vocab_size": config.vocab_size, "fingerprint": fingerprint(target)
    }


def _empty(stated: dict[str, Any], target: GPT, kinds: Collection[str]) -> Head:
    """The head that a config.json states, without memory."""
    kind, sizes = stated.get("kind"), stated.get("sizes", {})
    if not isinstance(kind, str) or kind not in kinds or kind not in HOMES:
        raise CheckpointError(
            f"the head is of kind {shown(kind)}, expected {' or '.join(kinds)}: give "
            "the folder of such a head"
        )
    module, name = HOMES[kind]
    make = getattr(import_module(f"minispec.drafters.{module}"), name)
    try:
        for size, n in sizes.items():
            if type(n) is not int or not 0 < n < (MOST if size in COUNTS else LARGEST):
                raise ValueError("sizes are whole numbers")
        with torch.device("meta"):
            return make(target.config, **sizes)
    except (AttributeError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"config.json states sizes that make no {kind} head, {shown(sizes)}: "
            f"{AGAIN}"
        ) from error

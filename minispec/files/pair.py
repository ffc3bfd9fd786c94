"""Loading a draft and a target that belong together."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from minispec.files import checkpoint
from minispec.files.checkpoint import stated_eos_ids
from minispec.files.checkpoint.config import config_from_json, read_json
from minispec.files.checkpoint.vocabulary_rows import is_padded
from minispec.files.errors import CheckpointError, shown
from minispec.files.head import check_no_head, is_head
from minispec.files.tokenizer import Tokenizer
from minispec.model.bare import lay_bare
from minispec.model.gpt2 import GPT, GPTConfig
from minispec.model.packed import pack

SHIPPED = Path(__file__).parents[2] / "weights" / "shakespeare"
DEVICES = "cuda", "mps", "cpu"  # what "auto" tries, in this order
GPT2_EOS = 50256  # what transformers takes where config.json states none


@dataclass(frozen=True)
class Pair:
    """A target, perhaps a draft, the vocabulary of both, the ids that end a text."""

    target: GPT
    draft: GPT | None
    tokenizer: Tokenizer
    eos_ids: tuple[int, ...]


def load_pair(
    target: Path | str = SHIPPED / "target",
    draft: Path | str | None = SHIPPED / "draft",
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    convert: Callable[[GPT], GPT] = lambda target: target,
) -> Pair:
    """Load both checkpoint folders, ready to decode; the EOS ids are the target's.

    Large weights are packed where that is faster (`model/packed.py`) and blocks laid
    bare (`model/bare.py`), after `convert` has had the target; `load_model` gives the
    plain model. `device` may be "auto", the fastest there is.

    Raises ValueError (CheckpointError, TokenizerError) for a folder that is missing or
    faulty, for vocabularies that differ (a drafted id must mean the same to both), and
    for a device that is not there.
    """
    model, tokenizer = load_packed(target, device, dtype, convert)
    eos_ids = eos_ids_of(target)
    if draft is None:
        return Pair(model, None, tokenizer, eos_ids)
    small, other = load_packed(draft, device, dtype)
    if not tokenizer.same_vocabulary(other):
        raise ValueError(
            f"the vocabularies differ: {target} has {tokenizer.vocab_size} tokens and "
            f"{draft} {other.vocab_size}, or they mean other texts; take a draft that "
            "was trained with the target's tokenizer, or draft without a model (ngram)"
        )
    return Pair(model, small, tokenizer, eos_ids)


def load_packed(
    folder: Path | str,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    convert: Callable[[GPT], GPT] = lambda target: target,
) -> tuple[GPT, Tokenizer]:
    """One model of a pair, ready to decode. Raises as `load_pair` does."""
    device = device_named(device, dtype)
    model, tokenizer = load_model(folder, dtype)
    return lay_bare(pack(convert(model.to(device)))), tokenizer


def device_named(name: torch.device | str, dtype: torch.dtype) -> torch.device:
    """The device, for numbers of that type. ValueError if there is none such."""
    there = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available() and dtype != torch.float64,
    }
    found = [one for one in DEVICES if there[one]]
    name = found[0] if name == "auto" else name
    if str(name).partition(":")[0] not in found:
        raise ValueError(
            f"no device {name!s:.80} for {dtype} here: choose auto or "
            f"{', '.join(found)}"
        )
    return torch.device(name)


def load_model(
    folder: Path | str, dtype: torch.dtype = torch.float32
) -> tuple[GPT, Tokenizer]:
    """A model and its tokenizer; padding rows of the vocabulary are left out.

    Raises ValueError, as `load_pair`, and for files that contradict each other.
    """
    check_folder(folder)
    check_no_head(folder)
    tokenizer = Tokenizer.from_folder(folder)
    source = Path(folder) / "config.json"
    check_vocabulary(folder, tokenizer, config_from_json(read_json(source), source))
    model = checkpoint.load(folder, dtype, vocab_size=tokenizer.vocab_size)
    return model, tokenizer


def eos_ids_of(folder: Path | str) -> tuple[int, ...]:
    """The ids that end a text: what the folder states, or the tokenizer's own mark.

    Raises CheckpointError and TokenizerError.
    """
    return stated_eos_ids(folder) or (Tokenizer.from_folder(folder).eos_id,)


def check_vocabulary(
    folder: Path | str, tokenizer: Tokenizer, config: GPTConfig
) -> None:
    """Raise CheckpointError where the tokenizer is not the one that the model had.

    An EOS id must be a token. Rows beyond the tokens must be plain padding: few, and
    after the EOS that the folder states, for a vocabulary cut short ends in another.
    """
    n_tokens, n_rows = tokenizer.vocab_size, config.vocab_size
    stated = stated_eos_ids(folder)
    padded = is_padded(n_rows, n_tokens) and tokenizer.eos_id in (stated or (GPT2_EOS,))
    if max(stated, default=0) >= n_tokens or not (n_rows == n_tokens or padded):
        raise CheckpointError(
            f"{folder}: the tokenizer has {n_tokens} ids and EOS {tokenizer.eos_id}, "
            f"the model {n_rows} rows and EOS {shown(stated or 'not stated')}: one of "
            "them is cut short or of another model; take both from one model"
        )


def check_folder(folder: Path | str) -> None:
    """Raise ValueError where there is no such folder, and say where to get one."""
    folder = Path(folder)
    if os.path.isfile(folder):
        raise CheckpointError(f"{folder} is a file: give its folder, {folder.parent}")
    if not os.path.isdir(folder) and SHIPPED in folder.parents:
        raise CheckpointError(
            f"the shipped pair is missing ({folder}): install from a checkout with "
            "`pip install -e .`, or name the folders of another target and draft"
        )
    if not os.path.isdir(folder):
        raise CheckpointError(
            f"no such folder: {folder}; give a checkpoint folder (config.json, "
            "model.safetensors and a vocabulary), or fetch one first with "
            "scripts/download_weights.py"
        )
    below = sorted(path.parent for path in folder.glob("*/config.json"))
    if below and not (folder / "config.json").exists():
        heads = [one.name for one in below if is_head(one)]
        models = [one.name for one in below if one.name not in heads]
        named = [", ".join(models)] * bool(models)
        named += [f"heads: {', '.join(heads)}"] * bool(heads)
        raise CheckpointError(
            f"{folder} is not a checkpoint folder itself: give one of those in it, "
            f"{'; '.join(named)}"
        )

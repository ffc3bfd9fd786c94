"""Loading a draft and a target that belong together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minispec import checkpoint
from minispec.gpt2 import GPT
from minispec.tokenizer import Tokenizer

SHIPPED = Path(__file__).parents[1] / "weights" / "shakespeare"


@dataclass(frozen=True)
class Pair:
    """A target, perhaps a draft, and the vocabulary that both speak."""

    target: GPT
    draft: GPT | None
    tokenizer: Tokenizer


def load_pair(target: Path, draft: Path | None) -> Pair:
    """Load both checkpoint folders, in float32.

    Raises ValueError (CheckpointError, TokenizerError) for a folder that is missing or
    faulty, and for vocabularies that differ: a drafted id must mean the same to both.
    """
    model, tokenizer = load_model(target)
    if draft is None:
        return Pair(model, None, tokenizer)
    small, other = load_model(draft)
    if not tokenizer.same_vocabulary(other):
        raise ValueError(
            f"the vocabularies differ: {target} has {tokenizer.vocab_size} tokens and "
            f"{draft} {other.vocab_size}, or they mean other texts; take a draft that "
            "was trained with the target's tokenizer, or draft without a model (ngram)"
        )
    return Pair(model, small, tokenizer)


def load_model(folder: Path) -> tuple[GPT, Tokenizer]:
    """A model and its tokenizer; padding rows of the vocabulary are left out."""
    check_folder(folder)
    tokenizer = Tokenizer.from_folder(folder)
    return checkpoint.load(folder, vocab_size=tokenizer.vocab_size), tokenizer


def check_folder(folder: Path) -> None:
    """Raise ValueError where there is no such folder, and say where to get one."""
    if not folder.is_dir() and SHIPPED in folder.parents:
        raise ValueError(
            f"the shipped pair is missing ({folder}): install from a checkout with "
            "`pip install -e .`, or name the folders of another target and draft"
        )
    if not folder.is_dir():
        raise ValueError(
            f"no such folder: {folder}; give a checkpoint folder (config.json, "
            "model.safetensors and a vocabulary), or fetch one first with "
            "scripts/download_weights.py"
        )
    below = sorted(path.parent.name for path in folder.glob("*/config.json"))
    if below and not (folder / "config.json").exists():
        raise ValueError(
            f"{folder} is no checkpoint folder itself: give one of those in it, "
            f"{', '.join(below)}"
        )

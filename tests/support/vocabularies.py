"""Small vocabularies, in memory and as the files that hold them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from minispec.files.tokenizer import Tokenizer
from minispec.files.vocabulary import BYTE_OF, EOS

# Ids do not follow the order of the bytes, so that a mix-up shows.
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġ Ġ", "ð Ł", "Ċ Ċ"]
SINGLE_BYTES = [bytes([b]) for b in range(256)]
MERGED_BYTES = [b"th", b"the", b" the", "é".encode(), "🤗".encode()[:2], b"\x1c\x1c"]


def gpt2_vocabulary() -> dict[str, int]:
    """vocab.json for MERGES: bytes in GPT-2's order, merges, then <|endoftext|>."""
    tokens = [*BYTE_OF, *("".join(merge.split()) for merge in MERGES), EOS]
    return {token: i for i, token in enumerate(tokens)}


def write_pair(folder: Path, vocab: Any, merges: list[str]) -> tuple[Path, Path]:
    """A vocab.json and merges.txt in the folder."""
    files = folder / "vocab.json", folder / "merges.txt"
    text = vocab if isinstance(vocab, str) else json.dumps(vocab)
    files[0].write_text(text, encoding="utf-8")
    files[1].write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    return files


def write_ranks(path: Path, tokens: list[bytes]) -> Path:
    """A .tiktoken file that ranks the tokens in order."""
    lines = [f"{base64.b64encode(t).decode()} {i}\n" for i, t in enumerate(tokens)]
    path.write_text("".join(lines))
    return path


def gpt2_style(folder: Path) -> Tokenizer:
    return Tokenizer.from_gpt2_files(*write_pair(folder, gpt2_vocabulary(), MERGES))


def ranked(folder: Path, tokens: list[bytes] = MERGED_BYTES) -> Tokenizer:
    path = write_ranks(folder / "small.tiktoken", SINGLE_BYTES + tokens)
    return Tokenizer.from_tiktoken_file(path)

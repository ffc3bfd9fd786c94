"""Vocabularies: the files that say which bytes are which token, as a tiktoken Encoding.

    raw bytes                  ids 0 to 255
    a .tiktoken file           lines of a token in base64 and its rank
    vocab.json, merges.txt     GPT-2's pair, as Hugging Face keeps it

Ids are 0 to vocab_size - 1 without holes, special tokens among them, and every byte is
a token; files that say otherwise are refused. Left out: adding tokens, other ways to
cut words than GPT-2's, and Hugging Face's `tokenizer.json`.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import tiktoken

EOS = "<|endoftext|>"
# GPT-2's: a word keeps the space before it. The same as inside tiktoken; spelled out
# because the trainer (scripts/learn_bpe.py) must cut words just as the encoder does.
GPT2_SPLIT = (
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
)
GPT2_FILES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
# GPT-2's files write a byte as a visible character: itself where Latin-1 has one,
# otherwise the next from U+0100 on.
_VISIBLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_OTHERS = sorted(set(range(256)) - set(_VISIBLE))
BYTE_OF = dict(zip(map(chr, [*_VISIBLE, *range(256, 324)]), _VISIBLE + _OTHERS))


class TokenizerError(ValueError):
    """A vocabulary cannot be read, or an id does not belong to it."""


def raw_bytes() -> tiktoken.Encoding:
    """The raw bytes: ids 0 to 255, and `<|endoftext|>` as 256."""
    return checked("bytes", {bytes([b]): b for b in range(256)}, {EOS: 256})


def tiktoken_file(path: Path | str) -> tiktoken.Encoding:
    """From lines `base64(token) rank`; `<|endoftext|>` is the id after the last.

    Read here, for `tiktoken.load` caches by path and would serve outdated content.
    """
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except ValueError as error:
            raise TokenizerError(
                f"{path}, line {number}: expected a token in base64 and its rank, "
                f"got {line[:40]!r}; give a .tiktoken file"
            ) from error
    return checked(str(path), ranks, {EOS: len(ranks)})


def gpt2_files(vocab: Path | str, merges: Path | str) -> tiktoken.Encoding:
    """From GPT-2's pair of files: token -> id as JSON, and the merges in order.

    Any two that agree with each other will do: no hash is asked for.
    """
    ids, made = read_vocab(vocab), read_merges(merges)
    mergeable = (BYTE_OF.keys() & ids.keys()) | set(made)
    specials = {token: i for token, i in ids.items() if token not in mergeable}
    check_pair(f"{vocab} and {merges}", ids, made, specials)
    ranks = {bytes(BYTE_OF[c] for c in token): ids[token] for token in mergeable}
    return checked(str(vocab), ranks, specials)


def fetched_gpt2() -> tiktoken.Encoding:
    """tiktoken's own GPT-2 vocabulary, which it downloads once and then caches."""
    try:
        return tiktoken.get_encoding("gpt2")
    except (OSError, ValueError) as error:
        raise TokenizerError(
            "tiktoken could not fetch GPT-2's vocabulary "
            f"({type(error).__name__}); go online once, or give a checkpoint "
            "folder with vocab.json and merges.txt"
        ) from error


def in_folder(folder: Path | str) -> tiktoken.Encoding:
    """From the files that a checkpoint folder holds, first a .tiktoken file."""
    folder = Path(folder)
    found = sorted(folder.glob("*.tiktoken"))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise TokenizerError(f"{folder}: expected one of {names}; keep only one")
    if found:
        return tiktoken_file(found[0])
    for vocab, merges in GPT2_FILES:
        if (folder / vocab).is_file() and (folder / merges).is_file():
            return gpt2_files(folder / vocab, folder / merges)
    raise TokenizerError(
        f"no vocabulary in {folder}: expected a .tiktoken file, or vocab.json and "
        "merges.txt; give a folder that has them (tokenizer.json is not read)"
    )


def checked(
    source: str, ranks: dict[bytes, int], specials: dict[str, int]
) -> tiktoken.Encoding:
    """A checked tiktoken.Encoding; tiktoken itself would panic at the first use."""
    ids = sorted([*ranks.values(), *specials.values()])
    single_bytes = sum(len(token) == 1 for token in ranks)
    if single_bytes < 256 or EOS not in specials or ids != list(range(len(ids))):
        raise TokenizerError(
            f"{source}: expected ids from 0 without hole or repeat, all 256 bytes and "
            f"{EOS}; got {len(ids)} ids up to {max(ids, default=None)}, {single_bytes} "
            f"bytes, specials {sorted(specials)}; give a whole GPT-2 style vocabulary"
        )
    return tiktoken.Encoding(
        source, pat_str=GPT2_SPLIT, mergeable_ranks=ranks, special_tokens=specials
    )


def read_text(path: Path | str) -> str:
    """A UTF-8 file as text, without the mark that some editors put before it."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(
            f"cannot read the vocabulary {path} ({error}); give a UTF-8 file"
        ) from error


def read_vocab(path: Path | str) -> dict[str, int]:
    """vocab.json: token, in GPT-2's visible alphabet -> id."""
    text = read_text(path)
    try:
        ids = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, or a tower of brackets or digits
        ids = None
    if not isinstance(ids, dict) or not all(type(i) is int for i in ids.values()):
        raise TokenizerError(f"{path}: expected a JSON object of token: id; give that")
    return ids


def read_merges(path: Path | str) -> list[str]:
    """merges.txt: the token that each merge makes, in order; a version may lead."""
    lines = read_text(path).splitlines()
    made = ["".join(line.split()) for line in lines if not line.startswith("#version")]
    return [token for token in made if token]


def check_pair(
    source: str, ids: dict[str, int], made: list[str], specials: dict[str, int]
) -> None:
    """Refuse files of two models, and ids that do not rise with the merges.

    tiktoken joins the pair of lowest id first: with others it would encode differently.
    """
    lost = [token for token in made if token not in ids or set(token) - set(BYTE_OF)]
    odd = [token for token in specials if not re.fullmatch("<.+>", token)]
    order = [ids[token] for token in made if token in ids]
    if lost or odd or order != sorted(set(order)):
        raise TokenizerError(
            f"{source} do not belong together: {len(lost)} merges make no token of the "
            f"vocabulary, {len(odd)} tokens are made by no merge, ids rise with the "
            f"merges: {order == sorted(set(order))}; take both files from one model"
        )

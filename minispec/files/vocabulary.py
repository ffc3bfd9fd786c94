"""Vocabularies: the files that say which bytes are which token, as a tiktoken Encoding.

    raw bytes                  ids 0 to 255
    a .tiktoken file           lines of a token in base64 and its rank
    a vocabulary and merges    GPT-2's form: merge_files.py

Ids are 0 to vocab_size - 1 without holes, special tokens among them, and every byte is
a token; anything else raises TokenizerError. Left out: adding tokens, and other ways to
cut words than GPT-2's.
"""

from __future__ import annotations

import base64
from pathlib import Path

import tiktoken

from minispec.files.errors import TokenizerError, regular, shown

EOS = "<|endoftext|>"
# GPT-2's: a word keeps the space before it. The same as inside tiktoken; spelled out
# because the trainer (scripts/learn_bpe.py) must cut words just as the encoder does.
GPT2_SPLIT = (
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
)
LONGEST = 50_000_000  # bytes of a file; GPT-2's tokenizer.json has 3 million at most
LONGEST_SPECIAL = 200  # characters
MOST_SPECIALS = 200_000  # characters in all; tiktoken takes half a second for these
# GPT-2's files write a byte as a visible character: itself where Latin-1 has one,
# otherwise the next from U+0100 on.
_VISIBLE = [*range(33, 127), *range(161, 173), *range(174, 256)]
_OTHERS = sorted(set(range(256)) - set(_VISIBLE))
BYTE_OF = dict(zip(map(chr, [*_VISIBLE, *range(256, 324)]), _VISIBLE + _OTHERS))


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
                f"got {shown(line, 40)!r}; give a .tiktoken file"
            ) from error
    return checked(str(path), ranks, {EOS: len(ranks)})


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


def checked(
    source: str, ranks: dict[bytes, int], specials: dict[str, int]
) -> tiktoken.Encoding:
    """A checked tiktoken.Encoding; tiktoken itself would panic at the first use."""
    _check_specials(source, specials)
    ids = sorted([*ranks.values(), *specials.values()])
    single_bytes = sum(len(token) == 1 for token in ranks)
    complete = single_bytes == 256 and EOS in specials and b"" not in ranks
    if not complete or ids != list(range(len(ids))):
        raise TokenizerError(
            f"{source}: expected ids from 0 without hole or repeat, all 256 bytes and "
            f"{EOS}, none empty; got {len(ids)} ids up to {max(ids, default=None)}, "
            f"{single_bytes} bytes, specials {shown(sorted(specials))}; give a whole "
            "vocabulary"
        )
    try:
        return tiktoken.Encoding(
            source, pat_str=GPT2_SPLIT, mergeable_ranks=ranks, special_tokens=specials
        )
    except Exception as error:
        why = f"tiktoken cannot use {source} ({shown(error)}); give another vocabulary"
        raise TokenizerError(why) from error


def _check_specials(source: str, specials: dict[str, int]) -> None:
    """Raise TokenizerError for names that cannot be looked for in a text.

    tiktoken finds "" everywhere and never ends. Of two names of which one begins the
    other it takes either, where other tokenizers take the longer.
    """
    for name in specials:
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_SPECIAL:
            odd = f"must have 1 to {LONGEST_SPECIAL} characters"
        elif any("\ud800" <= c <= "\udfff" for c in name):
            odd = "has half a character (a surrogate) in it"
        else:
            continue
        raise TokenizerError(
            f"{source}: the special token {shown(repr(name))} {odd}; correct it"
        )
    names = sorted(specials)
    begun = [pair for pair in zip(names, names[1:]) if pair[1].startswith(pair[0])]
    if begun or sum(map(len, names)) > MOST_SPECIALS:
        why = " begins ".join(map(shown, map(repr, begun[0]))) if begun else "too many"
        raise TokenizerError(
            f"{source}: special tokens must be {MOST_SPECIALS} characters at most, and "
            f"none may begin another; here: {why}; take another model"
        )


def read_text(path: Path | str) -> str:
    """A UTF-8 file as text, without the mark that some editors put before it."""
    try:
        return regular(path, LONGEST).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise TokenizerError(
            f"cannot read the vocabulary {path} ({why}); give a UTF-8 file"
        ) from error

"""Text <-> token ids: byte-level BPE over tiktoken, and decoding for a stream.

A token is a piece of bytes, not of characters: an emoji may span three tokens. So
`decode` joins all the bytes first, and `StreamDecoder` holds a character back until
its last byte has come. Where a vocabulary comes from: vocabulary.py and
merge_files.py.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from operator import index
from pathlib import Path
from typing import SupportsIndex

import tiktoken

from minispec.files import merge_files, vocabulary
from minispec.files.errors import TokenizerError, contents
from minispec.files.vocabulary import EOS

GPT2_FILES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
# tiktoken's regular expression overflows at 999,999 characters of white space with
# something after them. What Python alone calls white space does not count.
SPACE = re.compile(r"[^\S\x1c-\x1f]+")
LONG_SPACE = 500_000


class Tokenizer:
    """One vocabulary: `encode`, `decode`, `vocab_size`, `specials`, `eos_id`."""

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self.encoding = encoding
        self.vocab_size = encoding.n_vocab
        # Not from encode_single_token: an ordinary token may have the same bytes.
        self.specials = dict(sorted(encoding._special_tokens.items()))
        self.eos_id = self.specials[EOS]
        self._bytes_of = [
            encoding.decode_single_token_bytes(i) for i in range(self.vocab_size)
        ]

    @classmethod
    def from_bytes(cls) -> Tokenizer:
        """The raw bytes: ids 0 to 255, and `<|endoftext|>` as 256."""
        return cls(vocabulary.raw_bytes())

    @classmethod
    def from_tiktoken_file(cls, path: Path | str) -> Tokenizer:
        """From lines `base64(token) rank`. Raises TokenizerError."""
        return cls(vocabulary.tiktoken_file(path))

    @classmethod
    def from_gpt2_files(cls, vocab: Path | str, merges: Path | str) -> Tokenizer:
        """From vocab.json and merges.txt. Raises TokenizerError."""
        return cls(merge_files.gpt2_files(vocab, merges))

    @classmethod
    def gpt2(cls) -> Tokenizer:
        """tiktoken's own GPT-2 vocabulary; TokenizerError if it cannot be fetched."""
        return cls(vocabulary.fetched_gpt2())

    @classmethod
    def from_folder(cls, folder: Path | str) -> Tokenizer:
        """From a .tiktoken file, GPT-2's two files or a tokenizer.json, in this order.

        Raises TokenizerError.
        """
        try:
            return cls(_in_folder(Path(folder)))
        except OSError as error:
            why = f"cannot read {folder}: {error.strerror}; give a checkpoint folder"
            raise TokenizerError(why) from error

    def encode(self, text: str, allow_special: bool = False) -> list[int]:
        """Ids of a text; special tokens in it are plain text, or ids if allowed.

        A lone surrogate (half a character in UTF-16) becomes U+FFFD.
        """
        names = tuple(self.specials) if allow_special else ()
        encode = self.encoding.encode if names else self.encoding.encode_ordinary
        options = {"allowed_special": "all"} if names else {}
        return [i for piece in _pieces(text, names) for i in encode(piece, **options)]

    def decode_bytes(self, ids: Iterable[SupportsIndex]) -> bytes:
        """The bytes of ids, special tokens as their text; unknown ids are an error."""
        pieces = []
        for i in map(index, ids):
            if not 0 <= i < self.vocab_size:
                raise TokenizerError(
                    f"no token has id {i}, expected 0 to {self.vocab_size - 1}; if "
                    "the model's vocabulary is padded, mask the ids beyond"
                )
            pieces.append(self._bytes_of[i])
        return b"".join(pieces)

    def encode_bytes(self, data: bytes) -> list[int]:
        """Ids whose bytes are these; what is not UTF-8, byte by byte."""
        ids: list[int] = []
        while data:
            try:
                return ids + self.encode(data.decode("utf-8"))
            except UnicodeDecodeError as error:
                ids += self.encode(data[: error.start].decode("utf-8"))
                odd = data[error.start : error.end]
                ids += [self.encoding.encode_single_token(bytes([b])) for b in odd]
                data = data[error.end :]
        return ids

    def ids_by_bytes(self) -> dict[bytes, int]:
        """Each token's bytes with its id; the special ones are not among them."""
        special = set(self.specials.values())
        tokens = enumerate(self._bytes_of)
        return {token: i for i, token in tokens if i not in special}

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The text of ids; bytes that are not UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")

    def same_vocabulary(self, other: Tokenizer) -> bool:
        """Whether each id means the same in both: what a draft and its target need."""
        return self._bytes_of == other._bytes_of and self.specials == other.specials


def _pieces(text: str, specials: tuple[str, ...]) -> Iterator[str]:
    """The text, cut after a run of white space that is too long for tiktoken.

    GPT-2's regular expression cuts it there as well: before the last space, which goes
    with the next word, or after it where a special token follows.
    """
    begin = 0
    for run in SPACE.finditer(text) if len(text) > LONG_SPACE else ():
        if run.end() - run.start() > LONG_SPACE and run.end() < len(text):
            end = run.end() - (not text.startswith(specials, run.end()))
            yield text[begin:end]
            begin = end
    yield text[begin:]


def _in_folder(folder: Path) -> tiktoken.Encoding:
    found = sorted(folder.glob("*.tiktoken"))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise TokenizerError(f"{folder}: expected one of {names}; keep only one")
    if found:
        return vocabulary.tiktoken_file(found[0])
    for vocab, merges in GPT2_FILES:
        if (folder / vocab).is_file() and (folder / merges).is_file():
            added = folder / "added_tokens.json"
            return merge_files.gpt2_files(
                folder / vocab, folder / merges, added if added.is_file() else None
            )
    if (folder / "tokenizer.json").is_file():
        return merge_files.tokenizer_json(folder / "tokenizer.json")
    raise TokenizerError(
        f"no vocabulary in {folder}: expected a .tiktoken file, vocab.json and "
        f"merges.txt, or tokenizer.json; it holds {contents(folder)}"
    )


class StreamDecoder:
    """Decodes ids as they come, in pieces that add up to `decode` of all of them.

    A piece never ends inside a character, and nothing shown is ever taken back.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, ids: Iterable[SupportsIndex]) -> str:
        """All text that has become certain with these ids; may be empty."""
        return self._utf8.decode(self._tokenizer.decode_bytes(ids))

    def flush(self) -> str:
        """The end: a character begun and never finished comes out as U+FFFD."""
        return self._utf8.decode(b"", final=True)

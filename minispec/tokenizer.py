"""Text <-> token ids: byte-level BPE over tiktoken, and decoding for a stream.

A token is a piece of bytes, not of characters: an emoji may span three tokens. So
`decode` joins all the bytes first, and `StreamDecoder` holds a character back until
its last byte has come. Where a vocabulary comes from: vocabulary.py.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from operator import index
from pathlib import Path
from typing import SupportsIndex

import tiktoken

from minispec import vocabulary
from minispec.vocabulary import EOS, TokenizerError


class Tokenizer:
    """One vocabulary: `encode`, `decode`, `vocab_size`, `specials`, `eos_id`."""

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self.encoding = encoding
        self.vocab_size = encoding.n_vocab
        names = sorted(encoding.special_tokens_set)
        self.specials = {name: encoding.encode_single_token(name) for name in names}
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
        return cls(vocabulary.gpt2_files(vocab, merges))

    @classmethod
    def gpt2(cls) -> Tokenizer:
        """tiktoken's own GPT-2 vocabulary; TokenizerError if it cannot be fetched."""
        return cls(vocabulary.fetched_gpt2())

    @classmethod
    def from_folder(cls, folder: Path | str) -> Tokenizer:
        """From what a checkpoint folder holds. Raises TokenizerError."""
        return cls(vocabulary.in_folder(folder))

    def encode(self, text: str, allow_special: bool = False) -> list[int]:
        """Ids of a text; special tokens in it are plain text, or ids if allowed.

        A lone surrogate (half a character in UTF-16) becomes U+FFFD.
        """
        if allow_special:
            return self.encoding.encode(text, allowed_special="all")
        return self.encoding.encode_ordinary(text)

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

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The text of ids; bytes that are no UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")

    def same_vocabulary(self, other: Tokenizer) -> bool:
        """Whether each id means the same in both: what a draft and its target need."""
        return self._bytes_of == other._bytes_of and self.specials == other.specials


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

"""Text <-> token ids: byte-level BPE over tiktoken, and decoding for a stream.

A token is a piece of bytes, not of characters: an emoji may span three tokens. So
`decode` joins all the bytes first, and `StreamDecoder` holds a character back until
its last byte has come.

Ids are 0 to vocab_size - 1 without holes, special tokens among them. Left out: adding
tokens, other ways to cut words than GPT-2's, and Hugging Face's `tokenizer.json`.
"""

import base64
import codecs
import json
import re
from collections.abc import Iterable
from operator import index
from pathlib import Path
from typing import SupportsIndex

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
    def from_bytes(cls) -> "Tokenizer":
        """The raw bytes: ids 0 to 255, and `<|endoftext|>` as 256."""
        return cls(_encoding("bytes", {bytes([b]): b for b in range(256)}, {EOS: 256}))

    @classmethod
    def from_tiktoken_file(cls, path: Path | str) -> "Tokenizer":
        """From lines `base64(token) rank`; `<|endoftext|>` is the id after the last.

        Read here, for `tiktoken.load` caches by path and would serve outdated content.
        """
        ranks: dict[bytes, int] = {}
        for number, line in enumerate(_read(path).splitlines(), start=1):
            try:
                token, rank = line.split()
                ranks[base64.b64decode(token, validate=True)] = int(rank)
            except ValueError as error:
                raise TokenizerError(
                    f"{path}, line {number}: expected a token in base64 and its rank, "
                    f"got {line[:40]!r}; give a .tiktoken file"
                ) from error
        return cls(_encoding(str(path), ranks, {EOS: len(ranks)}))

    @classmethod
    def from_gpt2_files(cls, vocab: Path | str, merges: Path | str) -> "Tokenizer":
        """From GPT-2's pair of files: token -> id as JSON, and the merges in order.

        Any two that agree with each other will do: no hash is asked for.
        """
        ids, made = _read_vocab(vocab), _read_merges(merges)
        mergeable = (BYTE_OF.keys() & ids.keys()) | set(made)
        specials = {token: i for token, i in ids.items() if token not in mergeable}
        _check_pair(f"{vocab} and {merges}", ids, made, specials)
        ranks = {bytes(BYTE_OF[c] for c in token): ids[token] for token in mergeable}
        return cls(_encoding(str(vocab), ranks, specials))

    @classmethod
    def gpt2(cls) -> "Tokenizer":
        """tiktoken's own GPT-2 vocabulary, which it downloads once and then caches."""
        try:
            return cls(tiktoken.get_encoding("gpt2"))
        except (OSError, ValueError) as error:
            raise TokenizerError(
                "tiktoken could not fetch GPT-2's vocabulary "
                f"({type(error).__name__}); go online once, or give a checkpoint "
                "folder with vocab.json and merges.txt"
            ) from error

    @classmethod
    def from_folder(cls, folder: Path | str) -> "Tokenizer":
        """From the files that a checkpoint folder holds, first a .tiktoken file."""
        folder = Path(folder)
        found = sorted(folder.glob("*.tiktoken"))
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise TokenizerError(f"{folder}: expected one of {names}; keep only one")
        if found:
            return cls.from_tiktoken_file(found[0])
        for vocab, merges in GPT2_FILES:
            if (folder / vocab).is_file() and (folder / merges).is_file():
                return cls.from_gpt2_files(folder / vocab, folder / merges)
        raise TokenizerError(
            f"no vocabulary in {folder}: expected a .tiktoken file, or vocab.json and "
            "merges.txt; give a folder that has them (tokenizer.json is not read)"
        )

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

    def same_vocabulary(self, other: "Tokenizer") -> bool:
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


def _encoding(
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


def _read(path: Path | str) -> str:
    """A UTF-8 file as text."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TokenizerError(
            f"cannot read the vocabulary {path} ({error}); give a UTF-8 file"
        ) from error


def _read_vocab(path: Path | str) -> dict[str, int]:
    """vocab.json: token, in GPT-2's visible alphabet -> id."""
    try:
        ids = json.loads(_read(path))
    except json.JSONDecodeError:
        ids = None
    if not isinstance(ids, dict) or not all(type(i) is int for i in ids.values()):
        raise TokenizerError(f"{path}: expected a JSON object of token: id; give that")
    return ids


def _read_merges(path: Path | str) -> list[str]:
    """merges.txt: the token that each merge makes, in order; a version may lead."""
    lines = _read(path).splitlines()
    made = ["".join(line.split()) for line in lines if not line.startswith("#version")]
    return [token for token in made if token]


def _check_pair(
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

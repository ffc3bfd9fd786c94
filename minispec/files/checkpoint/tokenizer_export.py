"""Our tokenizer in the form that `AutoTokenizer` and serving engines load.

tiktoken knows only the rank of each token: it joins, again and again, the neighbours
whose union has the lowest rank. `tokenizer.json` lists merges, pairs in the order of
their preference. So each way to cut a token into two tokens becomes a merge, ranked by
the token it makes; and a word that is a token is taken whole, without any merge
(`ignore_merges`), as tiktoken does.

Left out: vocabularies that cut words in another way than GPT-2's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from minispec.files.tokenizer import Tokenizer
from minispec.files.vocabulary import BYTE_OF, EOS
from minispec.files.whole import replacing

CHARACTER_OF = {byte: character for character, byte in BYTE_OF.items()}


def export_tokenizer(
    tokenizer: Tokenizer, folder: Path | str, n_positions: int
) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json` into a checkpoint folder.

    `n_positions` is the model's context, which transformers warns by. What differs
    there: special tokens in a text are ids by default, as `allow_special` makes them
    here.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    stated = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": n_positions,
        "bos_token": EOS,
        "eos_token": EOS,
        "unk_token": EOS,  # never used: every byte is a token
        "clean_up_tokenization_spaces": False,
    }
    for name, value in (
        ("tokenizer.json", tokenizer_json(tokenizer)),
        ("tokenizer_config.json", stated),
    ):
        text = json.dumps(value, ensure_ascii=False, indent=1)
        with replacing(folder / name) as part:
            part.write_text(text + "\n", encoding="utf-8")


def tokenizer_json(tokenizer: Tokenizer) -> dict[str, Any]:
    """The tokenizers library's own description of the same tokenizer."""
    names = {i: name for name, i in tokenizer.specials.items()}
    rank_of = {
        tokenizer.decode_bytes([i]): i
        for i in range(tokenizer.vocab_size)
        if i not in names
    }
    vocab = {visible(token): rank for token, rank in rank_of.items()}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [special(i, name) for i, name in sorted(names.items())],
        "normalizer": None,
        "pre_tokenizer": {**byte_level, "trim_offsets": False},
        "post_processor": None,
        "decoder": {**byte_level, "trim_offsets": False},
        "model": {
            "type": "BPE",
            "ignore_merges": True,
            "vocab": vocab | {name: i for i, name in sorted(names.items())},
            "merges": [f"{visible(a)} {visible(b)}" for a, b in merges(rank_of)],
        },
    }


def merges(rank_of: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    """Every pair of tokens whose union is a token, lowest union first."""
    pairs = [
        (rank, rank_of[token[:at]], rank_of[token[at:]], token[:at], token[at:])
        for token, rank in rank_of.items()
        for at in range(1, len(token))
        if token[:at] in rank_of and token[at:] in rank_of
    ]
    return [(left, right) for *_, left, right in sorted(pairs)]


def visible(token: bytes) -> str:
    """Bytes in GPT-2's alphabet of visible characters, in which none is a space."""
    return "".join(CHARACTER_OF[byte] for byte in token)


def special(i: int, name: str) -> dict[str, Any]:
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": i, "content": name, **plain, "special": True}

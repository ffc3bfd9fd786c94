"""Byte-level BPE as a vocabulary and a list of merges: the forms that GPT-2 comes in.

    vocab.json, merges.txt     token -> id, and a line "left right" for each merge;
                               perhaps added_tokens.json, token -> id
    tokenizer.json             the same in one file of the `tokenizers` library

Both write a byte as a visible character (`BYTE_OF`). tiktoken has no list of merges: it
joins the pair whose union has the lowest id. That is the same where ids rise with the
merges, so this is checked. Added tokens are special tokens here: plain text, unless
`encode` allows them.

Left out, and rejected by name: any other model than BPE, normalizers, other ways to cut
words than GPT-2's, and tokens put before every text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tiktoken

from minispec.files.errors import TokenizerError, shown
from minispec.files.vocabulary import BYTE_OF, checked, read_text

Merge = Sequence[str]  # left, right
ALPHABET = frozenset(BYTE_OF)
ABSENT = "absent"  # a type that is not stated; older files leave out the model's
SETTINGS: dict[str, tuple[Any, ...]] = {  # in tokenizer.json: what is computed here
    "model.type": ("BPE", ABSENT),
    "model.dropout": (None, 0.0),
    "model.continuing_subword_prefix": (None, ""),
    "model.end_of_word_suffix": (None, ""),
    "normalizer": (None,),
    "pre_tokenizer.type": ("ByteLevel",),
    "pre_tokenizer.add_prefix_space": (False,),
    "pre_tokenizer.use_regex": (True, None),
    "post_processor.type": (None, "ByteLevel", "TemplateProcessing"),
    "post_processor.special_tokens": (None, {}),  # what a template puts before a text
    "decoder.type": ("ByteLevel",),
}
LONGEST_WORD = 200  # characters of a token that no merge makes
BESIDE = ("lstrip", "rstrip", "single_word")  # of an added token


def gpt2_files(
    vocab: Path | str, merges: Path | str, added: Path | str | None = None
) -> tiktoken.Encoding:
    """From token -> id as JSON and the merges in order, perhaps with added tokens.

    Any two that agree with each other will do: no hash is asked for.
    """
    ids = _ids(_read_json(vocab), vocab)
    pairs = []
    for number, line in enumerate(read_text(merges).splitlines(), start=1):
        if line and not line.startswith("#version"):
            pairs.append(_merge(line.split(), f"{merges}, line {number}"))
    ordinary = ALPHABET | {left + right for left, right in pairs}
    rest = ids.keys() - ordinary
    specials = {token: ids[token] for token in rest if re.fullmatch("<.+>", token)}
    if added is not None:
        specials |= _ids(_read_json(added), added)
    return _encoding(f"{vocab} and {merges}", ids, pairs, specials)


def tokenizer_json(path: Path | str) -> tiktoken.Encoding:
    """From the file that `tokenizers` and transformers write."""
    stated = _read_json(path)
    for name, allowed in SETTINGS.items():
        value: Any = stated
        for key in name.split("."):
            if isinstance(value, dict):
                value = value.get(key, ABSENT if key == "type" else None)
            else:
                value = value and "?"
        if not any(value == one for one in allowed):
            raise TokenizerError(
                f"{path} has {name} {shown(repr(value))}; only byte-level BPE that "
                "cuts words as GPT-2 does is read: take a GPT-2 model"
            )
    try:
        model, added = stated["model"], stated.get("added_tokens") or []
        specials = _ids({one["content"]: one["id"] for one in added}, path)
        odd = [one["content"] for one in added if any(one[key] for key in BESIDE)]
        merges = [m.split(" ") if isinstance(m, str) else m for m in model["merges"]]
    except (TypeError, KeyError) as error:
        raise TokenizerError(
            f"{path} lacks model, merges or added_tokens as `tokenizers` writes them; "
            "save it again"
        ) from error
    if odd:
        raise TokenizerError(
            f"{path}: the added token {shown(odd[0])} depends on what is beside it "
            f"({', '.join(BESIDE)}), which is not supported; take a GPT-2 model"
        )
    ids = _ids(model.get("vocab"), path)
    pairs = [_merge(merge, path) for merge in merges]
    return _encoding(path, ids, pairs, specials, bool(model.get("ignore_merges")))


def _encoding(
    source: Path | str,
    ids: dict[str, int],
    pairs: list[Merge],
    specials: dict[str, int],
    whole_words: bool = False,
) -> tiktoken.Encoding:
    """One vocabulary of files that agree.

    Where `whole_words`, a word that is a token is taken as it is (`ignore_merges`), so
    no merge needs to make it, unless tiktoken would: from two tokens inside a word.
    """
    made = ["".join(pair) for pair in pairs]
    reachable = ALPHABET | set(made)
    if whole_words:
        reachable |= {t for t in ids.keys() - reachable if not _has_parts(t, ids)}
    ranks = {t: i for t, i in ids.items() if t in reachable and t not in specials}
    unknown = sum(not {*p, "".join(p)} <= ranks.keys() for p in pairs)
    odd = [t for t in ids if t not in ranks and ids[t] != specials.get(t)]
    odd += [token for token in ranks if not ALPHABET.issuperset(token)]
    order = [ids.get(token, 0) for token in made]
    if unknown or odd or order != sorted(order):
        raise TokenizerError(
            f"{source} do not belong together: {unknown} merges have a part that is "
            f"not in the vocabulary, {len(odd)} tokens are made by no merge, ids rise "
            f"with the merges: {order == sorted(order)}; take all from one model"
        )
    by_bytes = {bytes(map(BYTE_OF.__getitem__, t)): i for t, i in ranks.items()}
    return checked(str(source), by_bytes, specials)


def _has_parts(token: str, ids: dict[str, int]) -> bool:
    """Whether two tokens make it; of an endless one it is not asked."""
    cuts = range(1, len(token))
    return len(token) > LONGEST_WORD or any(
        token[:i] in ids and token[i:] in ids for i in cuts
    )


def _read_json(path: Path | str) -> dict[str, Any]:
    text = read_text(path)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # or a tower of brackets or digits
        found = None
    if not isinstance(found, dict):
        raise TokenizerError(f"{path}: expected a JSON object; download it again")
    return found


def _ids(found: Any, source: Path | str) -> dict[str, int]:
    if not isinstance(found, dict) or not all(type(i) is int for i in found.values()):
        raise TokenizerError(f"{source}: expected tokens and their ids; give that")
    return found


def _merge(parts: Any, source: Path | str) -> Merge:
    if not isinstance(parts, list) or [type(p) for p in parts] != [str, str]:
        raise TokenizerError(
            f"{source}: a merge joins two tokens, got {shown(repr(parts))}; download "
            "the file again"
        )
    return parts

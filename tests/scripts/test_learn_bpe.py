"""The trainer: its ranks are deterministic, and tiktoken reads them as it does."""

from __future__ import annotations

import base64
import random
from collections import Counter
from pathlib import Path

import pytest
import regex  # type: ignore[import-untyped]
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from course.apart import apart
from support.script_loader import load_script

from minispec.files.tokenizer import Tokenizer
from minispec.files.vocabulary import EOS, GPT2_SPLIT

bpe = load_script("learn_bpe")

SINGLE_BYTES = {bytes([b]): b for b in range(256)}
TEXT = "the theatre, then the thane: they thought the other; é é éé aaaa aaa\n\n" * 2
# Few letters make many ties, overlaps and merges of merges.
few_letters = st.text("aab c\né", min_size=1, max_size=60)


def split(word: str, ranks: dict[bytes, int]) -> list[bytes]:
    """BPE's encoder by definition: join the lowest rank, the leftmost, again."""
    parts = [bytes([b]) for b in word.encode()]
    while True:
        joined = [a + b for a, b in zip(parts, parts[1:])]
        pairs = [(ranks.get(pair, 10**9), i) for i, pair in enumerate(joined)]
        rank, i = min(pairs, default=(10**9, 0))
        if rank == 10**9:
            return parts
        parts[i] += parts.pop(i + 1)


def learn_slowly(text: str, n_merges: int) -> dict[bytes, int]:
    """The definition, in full at every step: count all pairs, join, start again."""
    ranks = dict(SINGLE_BYTES)
    for _ in range(n_merges):
        pairs: Counter[bytes] = Counter()
        for word in regex.findall(GPT2_SPLIT, text):
            parts = split(word, ranks)
            pairs.update(a + b for a, b in zip(parts, parts[1:]))
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        ranks[best] = len(ranks)
    return ranks


def encoding(ranks: dict[bytes, int]) -> tiktoken.Encoding:
    return tiktoken.Encoding(
        "test", pat_str=GPT2_SPLIT, mergeable_ranks=ranks, special_tokens={}
    )


@given(few_letters, st.integers(0, 20))
def test_it_learns_what_the_definition_learns(text: str, n_merges: int) -> None:
    slowly = learn_slowly(text, n_merges)
    assert [*bpe.learn_bpe(text, len(slowly) + 1).items()] == [*slowly.items()]


@given(few_letters, few_letters)
def test_tiktoken_encodes_as_the_trainer_does(seen: str, unseen: str) -> None:
    ranks = bpe.learn_bpe(seen, len(learn_slowly(seen, 20)) + 1)
    words = regex.findall(GPT2_SPLIT, unseen)
    parts = [part for word in words for part in split(word, ranks)]
    assert encoding(ranks).encode_ordinary(unseen) == [ranks[part] for part in parts]


def test_the_most_frequent_pair_is_first_and_ties_go_by_bytes() -> None:
    ranks = bpe.learn_bpe("cd cd cd ab ab xy", 256 + 4 + 1)
    assert list(ranks)[256:] == [b"cd", b" a", b" ab", b" cd"]


def test_a_size_without_room_for_the_bytes_and_a_short_text_are_rejected() -> None:
    with pytest.raises(ValueError, match="at least 257 .* got 256"):
        bpe.learn_bpe(TEXT, 256)
    with pytest.raises(ValueError, match="vocabulary of 259 ids, asked for 300"):
        bpe.learn_bpe("aaa", 300)
    assert bpe.learn_bpe("", 257) == SINGLE_BYTES


@pytest.mark.parametrize("letters, size", [("a", 270), ("abcdefgh", 1000)])
def test_one_long_word_takes_no_longer_than_many_short_ones(
    letters: str, size: int
) -> None:
    """A second; it took hours when each merge split the whole word anew."""
    word = "".join(random.Random(0).choices(letters, k=200_000))
    assert apart(lambda: len(bpe.learn_bpe(word, size)), seconds=60) == size - 1


def test_the_command_writes_a_file_that_tiktoken_reads(tmp_path: Path) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "learned.tiktoken"
    text.write_bytes(TEXT.encode())
    assert bpe.main([str(text), str(out), "--vocab-size", "280"]) == 0
    lines = [line.split() for line in out.read_bytes().splitlines()]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    assert ranks == bpe.learn_bpe(TEXT, 280)
    tokenizer = Tokenizer.from_tiktoken_file(out)
    assert (tokenizer.vocab_size, tokenizer.specials) == (280, {EOS: 279})
    assert tokenizer.encode(TEXT) == encoding(ranks).encode_ordinary(TEXT)
    text.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="not UTF-8"):
        bpe.main([str(text), str(out)])

"""The trainer: its ranks are deterministic, and tiktoken reads them as it does."""

import base64
from collections import Counter
from pathlib import Path

import pytest
import regex  # type: ignore[import-untyped]
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from minispec.tokenizer import Tokenizer
from minispec.vocabulary import EOS, GPT2_SPLIT

from script_loader import load_script

bpe = load_script("learn_bpe")

SINGLE_BYTES = {bytes([b]): b for b in range(256)}
TEXT = "the theatre, then the thane: they thought the other; é é éé aaaa aaa\n\n" * 2
# Few letters make many ties, overlaps and merges of merges.
few_letters = st.text("aab c\né", min_size=1, max_size=60)


def words_of(text: str) -> list[str]:
    """The text cut as the encoder cuts it."""
    return regex.findall(GPT2_SPLIT, text)


def bytes_of(word: str) -> list[bytes]:
    """The word as single bytes."""
    return [bytes([b]) for b in word.encode()]


def learn_slowly(text: str, n_merges: int) -> dict[bytes, int]:
    """The definition, in full at every step: count all pairs, join, start again."""
    ranks = dict(SINGLE_BYTES)
    for _ in range(n_merges):
        pairs: Counter[bytes] = Counter()
        for word in words_of(text):
            parts = bpe.merge_word(bytes_of(word), ranks)
            pairs.update(a + b for a, b in zip(parts, parts[1:]))
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        ranks[best] = len(ranks)
    return ranks


def learn_all(text: str, at_most: int) -> dict[bytes, int]:
    """As many merges as the text has, but no more than asked for."""
    reachable = learn_slowly(text, at_most)
    return bpe.learn_bpe(text, len(reachable) + 1)


def encoding(ranks: dict[bytes, int]) -> tiktoken.Encoding:
    """The ranks inside tiktoken."""
    return tiktoken.Encoding(
        "test", pat_str=GPT2_SPLIT, mergeable_ranks=ranks, special_tokens={}
    )


@given(few_letters)
def test_incremental_counts_learn_what_the_definition_learns(text: str) -> None:
    assert learn_all(text, 12) == learn_slowly(text, 12)


@given(few_letters, few_letters)
def test_tiktoken_encodes_as_the_trainer_does(seen: str, unseen: str) -> None:
    ranks = learn_all(seen, 20)
    ids = encoding(ranks).encode_ordinary(unseen)
    parts = [p for w in words_of(unseen) for p in bpe.merge_word(bytes_of(w), ranks)]
    assert ids == [ranks[part] for part in parts]


@given(few_letters)
def test_bytes_come_first_and_each_rank_once(text: str) -> None:
    ranks = learn_all(text, 20)
    assert list(ranks.items())[:256] == list(SINGLE_BYTES.items())
    assert list(ranks.values()) == list(range(len(ranks)))


@given(few_letters)
def test_a_larger_vocabulary_extends_a_smaller_one(text: str) -> None:
    large = list(learn_all(text, 20).items())
    assert list(learn_all(text, 5).items()) == large[: min(len(large), 261)]


def test_the_most_frequent_pair_is_first_and_ties_go_by_bytes() -> None:
    ranks = bpe.learn_bpe("cd cd cd ab ab xy", 256 + 4 + 1)
    assert list(ranks)[256:] == [b"cd", b" a", b" ab", b" cd"]


@pytest.mark.parametrize("size", [-1, 0, 256])
def test_a_size_without_room_for_the_bytes_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"at least 257 .* got {size}"):
        bpe.learn_bpe(TEXT, size)


def test_a_text_too_short_for_the_size_is_refused() -> None:
    with pytest.raises(ValueError, match="vocabulary of 259 ids, asked for 300"):
        bpe.learn_bpe("aaa", 300)
    assert bpe.learn_bpe("", 257) == SINGLE_BYTES


def test_the_file_is_in_tiktokens_format(tmp_path: Path) -> None:
    ranks = bpe.learn_bpe(TEXT, 280)
    path = tmp_path / "learned.tiktoken"
    bpe.write_tiktoken(ranks, path)
    lines = [line.split() for line in path.read_bytes().splitlines()]
    assert {base64.b64decode(token): int(rank) for token, rank in lines} == ranks
    tokenizer = Tokenizer.from_tiktoken_file(path)
    assert (tokenizer.vocab_size, tokenizer.specials) == (280, {EOS: 279})
    assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT
    assert tokenizer.encode(TEXT) == encoding(ranks).encode_ordinary(TEXT)


def test_the_command_writes_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "out.tiktoken"
    text.write_bytes(TEXT.encode())
    assert bpe.main([str(text), str(out), "--vocab-size", "280"]) == 0
    assert "279 tokens, and <|endoftext|> as id 279" in capsys.readouterr().out
    assert Tokenizer.from_tiktoken_file(out).vocab_size == 280


@pytest.mark.parametrize(
    "content, size, complaint",
    [
        (None, "300", "text.txt"),
        (b"\xff\xff", "300", "UTF-8"),
        (b"short", "300", "asked for 300"),
        (b"short", "10", "at least 257"),
    ],
)
def test_the_command_refuses_bad_input_in_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: bytes | None,
    size: str,
    complaint: str,
) -> None:
    text, out = tmp_path / "text.txt", tmp_path / "out.tiktoken"
    if content is not None:
        text.write_bytes(content)
    assert bpe.main([str(text), str(out), "--vocab-size", size]) == 2
    error = capsys.readouterr().err
    assert complaint in error and error.count("\n") == 1
    assert not out.exists()

"""The tokenizer: nothing lost, nothing shown too early, nothing wrong in silence."""

import numpy
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from minispec.files import tokenizer as module
from minispec.files.errors import TokenizerError
from minispec.files.tokenizer import StreamDecoder, Tokenizer
from minispec.files.vocabulary import EOS

from support.vocabularies import MERGED_BYTES, gpt2_style, gpt2_vocabulary, ranked

BYTES = Tokenizer.from_bytes()
any_text = st.text()  # no lone surrogates
wild_text = st.text(st.one_of(st.characters(), st.characters(categories=["Cs"])))
spacious_text = st.text(st.sampled_from(" \n\t\x1c\x1c\u2003\u00a0a1'é!")) | st.lists(
    st.sampled_from([" ", "   ", "\n\n\n\n", EOS, "the", "<|"])
).map("".join)


@pytest.fixture(scope="module", params=["bytes", "gpt2", "ranked"])
def tokenizer(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    makers = {"bytes": lambda _: BYTES, "gpt2": gpt2_style, "ranked": ranked}
    return makers[request.param](folder)


# Encoding and decoding


@given(any_text)
@example(EOS)
@example("\r\n \n\n  x\t\x00é🤗")
def test_any_text_comes_back_whole(tokenizer, text):
    for allow_special in (False, True):
        ids = tokenizer.encode(text, allow_special=allow_special)
        assert tokenizer.decode(ids) == text
        assert all(0 <= i < tokenizer.vocab_size for i in ids)


@given(st.binary())
def test_any_bytes_come_back_whole(data):
    assert BYTES.decode_bytes(data) == data
    assert BYTES.decode(data) == data.decode("utf-8", errors="replace")


@given(wild_text)
def test_lone_surrogates_become_replacement_characters(text):
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert BYTES.decode(BYTES.encode(text)) == joined
    assert BYTES.decode(BYTES.encode(text, allow_special=True)) == joined


@given(any_text, any_text)
@example("a \n ", " b")
@example("<|endof", EOS)
def test_special_tokens_are_text_unless_allowed(tokenizer, before, after):
    text = before + EOS + after
    plain, special = tokenizer.encode(text), tokenizer.encode(text, allow_special=True)
    head = tokenizer.encode(before, allow_special=True)
    tail = tokenizer.encode(after, allow_special=True)
    assert tokenizer.eos_id not in plain
    assert special == [*head, tokenizer.eos_id, *tail]
    assert tokenizer.decode(plain) == tokenizer.decode(special) == text


def test_merges_are_used(tmp_path):
    expected = [gpt2_vocabulary()[token] for token in ["hello", "Ġw", "o"]]
    assert gpt2_style(tmp_path).encode("hello wo") == expected
    assert ranked(tmp_path).encode("the the") == [257, 258]


@given(spacious_text)
@example("\x1c\x1cx")
def test_a_cut_in_white_space_changes_nothing(tokenizer, text):
    whole = tokenizer.encoding
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LONG_SPACE", 1)
        assert tokenizer.encode(text) == whole.encode_ordinary(text)
        special = tokenizer.encode(text, allow_special=True)
    assert special == whole.encode(text, allowed_special="all")


def test_a_million_spaces_are_no_panic():
    """From 999,999 on, with something after them, tiktoken raises a BaseException."""
    text = " " * 10**6 + f"x{EOS}" + "\n" * 10**6 + EOS
    for allow_special in (False, True):
        assert BYTES.decode(BYTES.encode(text, allow_special)) == text


def test_sizes_and_end_of_text(tokenizer):
    assert tokenizer.eos_id == tokenizer.specials[EOS] == tokenizer.vocab_size - 1
    assert tokenizer.decode([tokenizer.eos_id]) == EOS
    assert tokenizer.encode("") == [] and tokenizer.decode([]) == ""


def test_ids_are_whole_numbers_of_the_vocabulary():
    assert BYTES.decode(torch.tensor([72, 105])) == "Hi"
    assert BYTES.decode(numpy.array([72, 105])) == "Hi"
    with pytest.raises(TypeError):
        BYTES.decode([72.5])
    for bad in (-1, 257, 50256):
        with pytest.raises(TokenizerError, match=rf"no token has id {bad}, .*to 256"):
            BYTES.decode([72, bad])


def test_same_vocabulary_means_the_same_ids(tmp_path):
    one, other = ranked(tmp_path), ranked(tmp_path, MERGED_BYTES[::-1])  # read anew
    assert one.same_vocabulary(ranked(tmp_path))
    assert not one.same_vocabulary(gpt2_style(tmp_path))
    assert not one.same_vocabulary(other) and one.vocab_size == other.vocab_size


# Streaming


def stream(pieces):
    """What a reader sees, piece by piece, the last from `flush`."""
    decoder = StreamDecoder(BYTES)
    return [decoder.push(ids) for ids in pieces] + [decoder.flush()]


@given(st.lists(st.lists(st.integers(0, 256), max_size=5)))
@example([[0xF0], [0x9F, 0xA4], [0x97], [0xE4, 0xBD]])
@example([[0xF0, 0x9F], [256], [0x80, 0x80]])
def test_pieces_add_up_for_any_bytes(pieces):
    everything = [i for ids in pieces for i in ids]
    assert "".join(stream(pieces)) == BYTES.decode(everything)


@given(any_text, st.integers(1, 4))
def test_valid_text_never_shows_a_replacement(text, block):
    ids = BYTES.encode(text)
    shown = ""
    for piece in stream([ids[i : i + block] for i in range(0, len(ids), block)]):
        shown += piece
        assert text.startswith(shown)
    assert shown == text


def test_emoji_across_blocks_then_chinese_then_a_cut_character():
    emoji, chinese, cut = "🤗".encode(), "你好".encode(), "世".encode()[:2]
    pieces = [[emoji[0]], emoji[1:3], [emoji[3], chinese[0]], chinese[1:], cut]
    assert stream(pieces) == ["", "", "🤗", "你好", "", "\ufffd"]


def test_an_unknown_id_leaves_the_stream_as_it_was():
    decoder = StreamDecoder(BYTES)
    assert decoder.push([0xC3]) == ""
    with pytest.raises(TokenizerError):
        decoder.push([0xA9, 999])
    assert decoder.push([0xA9]) + decoder.flush() == "é"

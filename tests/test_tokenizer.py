"""The tokenizer: nothing lost, nothing shown too early, nothing wrong in silence."""

import base64
import json
import socket
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minispec.tokenizer import StreamDecoder, Tokenizer
from minispec.vocabulary import BYTE_OF, EOS, TokenizerError

BYTES = Tokenizer.from_bytes()
# Small vocabularies whose ids do not follow the bytes' order, so that a mix-up shows.
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġ Ġ", "ð Ł", "Ċ Ċ"]

any_text = st.text()  # no lone surrogates
surrogates = st.characters(categories=["Cs"])
wild_text = st.text(st.one_of(st.characters(), surrogates))
tokens_of_merges = ["".join(merge.split()) for merge in MERGES]


def gpt2_vocabulary() -> dict[str, int]:
    """vocab.json for MERGES: bytes in GPT-2's order, merges, then <|endoftext|>."""
    tokens = [*BYTE_OF, *tokens_of_merges, EOS]
    return {token: i for i, token in enumerate(tokens)}


def write_pair(folder: Path, vocab: object, merges: list[str]) -> tuple[Path, Path]:
    """A vocab.json and merges.txt in the folder."""
    files = folder / "vocab.json", folder / "merges.txt"
    text = vocab if isinstance(vocab, str) else json.dumps(vocab)
    files[0].write_text(text, encoding="utf-8")
    files[1].write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    return files


def write_ranks(path: Path, tokens: list[bytes]) -> Path:
    """A .tiktoken file that ranks the tokens in order."""
    lines = [f"{base64.b64encode(t).decode()} {i}\n" for i, t in enumerate(tokens)]
    path.write_text("".join(lines))
    return path


SINGLE_BYTES = [bytes([b]) for b in range(256)]
MERGED_BYTES = [b"th", b"the", b" the", "é".encode(), "🤗".encode()[:2]]


@pytest.fixture(scope="module")
def gpt2_style(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("gpt2")
    return Tokenizer.from_gpt2_files(*write_pair(folder, gpt2_vocabulary(), MERGES))


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("ranked") / "small.tiktoken"
    return Tokenizer.from_tiktoken_file(write_ranks(path, SINGLE_BYTES + MERGED_BYTES))


@pytest.fixture(scope="module", params=["bytes", "gpt2_style", "ranked"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param == "bytes":
        return BYTES
    return request.getfixturevalue(request.param)


# Encoding and decoding


@given(any_text)
@example(EOS)
@example("\r\n \n\n  x\t\x00é🤗")
def test_any_text_comes_back_whole(tokenizer: Tokenizer, text: str) -> None:
    for allow_special in (False, True):
        ids = tokenizer.encode(text, allow_special=allow_special)
        assert tokenizer.decode(ids) == text
        assert all(0 <= i < tokenizer.vocab_size for i in ids)


@given(st.binary())
def test_any_bytes_come_back_whole(data: bytes) -> None:
    assert BYTES.decode_bytes(data) == data
    assert BYTES.decode(data) == data.decode("utf-8", errors="replace")


@given(wild_text)
def test_lone_surrogates_become_replacement_characters(text: str) -> None:
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert BYTES.decode(BYTES.encode(text)) == joined
    assert BYTES.decode(BYTES.encode(text, allow_special=True)) == joined


@given(any_text, any_text)
@example("a \n ", " b")
@example("<|endof", EOS)
def test_special_tokens_are_text_unless_allowed(
    tokenizer: Tokenizer, before: str, after: str
) -> None:
    text = before + EOS + after
    plain = tokenizer.encode(text)
    special = tokenizer.encode(text, allow_special=True)
    head = tokenizer.encode(before, allow_special=True)
    tail = tokenizer.encode(after, allow_special=True)
    assert tokenizer.eos_id not in plain
    assert special == [*head, tokenizer.eos_id, *tail]
    assert tokenizer.decode(plain) == tokenizer.decode(special) == text


def test_merges_are_used(gpt2_style: Tokenizer, ranked: Tokenizer) -> None:
    vocabulary = gpt2_vocabulary()
    expected = [vocabulary[token] for token in ["hello", "Ġw", "o"]]
    assert gpt2_style.encode("hello wo") == expected
    assert ranked.encode("the the") == [257, 258]


def test_sizes_and_end_of_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.eos_id == tokenizer.specials[EOS] == tokenizer.vocab_size - 1
    assert tokenizer.decode([tokenizer.eos_id]) == EOS
    assert tokenizer.encode("") == [] and tokenizer.decode([]) == ""


@pytest.mark.parametrize("bad", [-1, 257, 50256])
def test_an_id_out_of_range_is_named(bad: int) -> None:
    with pytest.raises(TokenizerError, match=rf"no token has id {bad}, .* 0 to 256"):
        BYTES.decode([72, bad])


def test_ids_may_be_tensors_or_arrays_but_not_fractions() -> None:
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    assert BYTES.decode(torch.tensor([72, 105])) == "Hi"
    assert BYTES.decode(numpy.array([72, 105])) == "Hi"
    with pytest.raises(TypeError):
        BYTES.decode([72.5])  # type: ignore[list-item]


# Streaming


def stream(tokenizer: Tokenizer, pieces: list[list[int]]) -> list[str]:
    """What a reader sees, piece by piece, the last from `flush`."""
    decoder = StreamDecoder(tokenizer)
    return [decoder.push(ids) for ids in pieces] + [decoder.flush()]


@given(st.lists(st.lists(st.integers(0, 256), max_size=5)))
@example([[0xF0], [0x9F, 0xA4], [0x97], [0xE4, 0xBD]])
@example([[0xF0, 0x9F], [256], [0x80, 0x80]])
def test_pieces_add_up_for_any_bytes(pieces: list[list[int]]) -> None:
    everything = [i for ids in pieces for i in ids]
    assert "".join(stream(BYTES, pieces)) == BYTES.decode(everything)


@given(any_text, st.integers(1, 4))
def test_valid_text_never_shows_a_replacement(text: str, block: int) -> None:
    ids = BYTES.encode(text)
    pieces = [ids[i:i + block] for i in range(0, len(ids), block)]
    shown = ""
    for piece in stream(BYTES, pieces):
        shown += piece
        assert text.startswith(shown)
    assert shown == text


def test_emoji_across_blocks_then_chinese_then_a_cut_character() -> None:
    emoji, chinese, cut = "🤗".encode(), "你好".encode(), "世".encode()[:2]
    pieces = [[emoji[0]], list(emoji[1:3]), [emoji[3], chinese[0]]]
    pieces += [list(chinese[1:]), list(cut)]
    assert stream(BYTES, pieces) == ["", "", "🤗", "你好", "", "\ufffd"]


def test_a_refused_id_leaves_the_stream_as_it_was() -> None:
    decoder = StreamDecoder(BYTES)
    assert decoder.push([0xC3]) == ""
    with pytest.raises(TokenizerError):
        decoder.push([0xA9, 999])
    assert decoder.push([0xA9]) + decoder.flush() == "é"


# Vocabularies and their files


def test_same_vocabulary_means_the_same_ids(
    gpt2_style: Tokenizer, ranked: Tokenizer, tmp_path: Path
) -> None:
    copy = write_ranks(tmp_path / "copy.tiktoken", SINGLE_BYTES + MERGED_BYTES)
    assert ranked.same_vocabulary(Tokenizer.from_tiktoken_file(copy))
    assert not ranked.same_vocabulary(gpt2_style)
    swapped = SINGLE_BYTES + MERGED_BYTES[::-1]
    other = Tokenizer.from_tiktoken_file(write_ranks(copy, swapped))  # read anew
    assert other.vocab_size == ranked.vocab_size
    assert not ranked.same_vocabulary(other)


def test_more_special_tokens_of_a_gpt2_style_vocabulary(tmp_path: Path) -> None:
    vocabulary = gpt2_vocabulary()
    vocabulary["<|pad|>"] = len(vocabulary)
    files = write_pair(tmp_path, vocabulary, MERGES)
    padded = Tokenizer.from_gpt2_files(*files)
    ids = padded.encode("<|pad|>" + EOS, allow_special=True)
    assert ids == [vocabulary["<|pad|>"], padded.eos_id]


@pytest.mark.parametrize(
    "head", ["", "#version: 0.2\n", "#version: 0.2\r\n", "\n", "\ufeff#version: 0.2\n"]
)
def test_the_merges_may_begin_with_a_version(
    tmp_path: Path, gpt2_style: Tokenizer, head: str
) -> None:
    vocab, merges = write_pair(tmp_path, gpt2_vocabulary(), MERGES)
    merges.write_text(head + "\n".join(MERGES), encoding="utf-8")
    read = Tokenizer.from_gpt2_files(vocab, merges)
    assert read.same_vocabulary(gpt2_style)
    assert read.encode("hello") == gpt2_style.encode("hello")


def test_the_alphabet_of_gpt2() -> None:
    assert sorted(BYTE_OF.values()) == list(range(256))
    assert BYTE_OF["Ġ"] == ord(" ") and BYTE_OF["Ċ"] == ord("\n")
    assert BYTE_OF["Ń"] == 173 and BYTE_OF["ÿ"] == 255


def without(token: str) -> dict[str, int]:
    """The vocabulary with a token taken out and the ids closed up."""
    kept = [t for t in gpt2_vocabulary() if t != token]
    return {t: i for i, t in enumerate(kept)}


@pytest.mark.parametrize(
    "vocab, merges, complaint",
    [
        (gpt2_vocabulary(), MERGES[::-1], "do not belong together"),
        (gpt2_vocabulary(), MERGES[:-1], "1 tokens are made by no merge"),
        (gpt2_vocabulary(), MERGES + ["q q"], "1 merges make no token"),
        (gpt2_vocabulary(), MERGES + ["你 好"], "1 merges make no token"),
        (without("A"), MERGES, "255 bytes"),
        (without(EOS), MERGES, "specials \\[\\]"),
        (gpt2_vocabulary() | {EOS: 999}, MERGES, "ids up to 999"),
        ("{", MERGES, "expected a JSON object"),
        ("[" * 100_000, MERGES, "expected a JSON object"),
        ('{"a": ' + "9" * 5000 + "}", MERGES, "expected a JSON object"),
        ([1, 2], MERGES, "expected a JSON object"),
        ({"a": "b"}, MERGES, "expected a JSON object"),
        ({}, [], "0 bytes"),
    ],
)
def test_a_bad_pair_of_files_is_refused(
    tmp_path: Path, vocab: object, merges: list[str], complaint: str
) -> None:
    with pytest.raises(TokenizerError, match=complaint) as caught:
        Tokenizer.from_gpt2_files(*write_pair(tmp_path, vocab, merges))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content, complaint",
    [
        (b"", "0 bytes"),
        (b"YQ== 0\nYg==\n", "line 2: expected a token in base64 and its rank"),
        (b"YQ== zero\n", "line 1"),
        (b"@@@@ 0\n", "line 1"),
        (b"\xff\xfe", "cannot read the vocabulary"),
    ],
)
def test_a_bad_tiktoken_file_is_refused(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    path = tmp_path / "bad.tiktoken"
    path.write_bytes(content)
    with pytest.raises(TokenizerError, match=complaint):
        Tokenizer.from_tiktoken_file(path)


def test_a_repeated_token_in_a_tiktoken_file_is_refused(tmp_path: Path) -> None:
    path = write_ranks(tmp_path / "x.tiktoken", SINGLE_BYTES + [b"th", b"th"])
    with pytest.raises(TokenizerError, match="hole or repeat"):
        Tokenizer.from_tiktoken_file(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="none.tiktoken"):
        Tokenizer.from_tiktoken_file(tmp_path / "none.tiktoken")


def test_a_folder_gives_what_it_holds(tmp_path: Path, gpt2_style: Tokenizer) -> None:
    with pytest.raises(TokenizerError, match="no vocabulary in"):
        Tokenizer.from_folder(tmp_path)
    write_pair(tmp_path, gpt2_vocabulary(), MERGES)
    assert Tokenizer.from_folder(tmp_path).same_vocabulary(gpt2_style)
    write_ranks(tmp_path / "a.tiktoken", SINGLE_BYTES)
    assert Tokenizer.from_folder(tmp_path).same_vocabulary(BYTES)
    write_ranks(tmp_path / "b.tiktoken", SINGLE_BYTES)
    with pytest.raises(TokenizerError, match="a.tiktoken, b.tiktoken"):
        Tokenizer.from_folder(tmp_path)


def test_a_folder_may_use_the_first_names_of_gpt2s_files(
    tmp_path: Path, gpt2_style: Tokenizer
) -> None:
    vocab, merges = write_pair(tmp_path, gpt2_vocabulary(), MERGES)
    vocab.rename(tmp_path / "encoder.json")
    merges.rename(tmp_path / "vocab.bpe")
    assert Tokenizer.from_folder(tmp_path).same_vocabulary(gpt2_style)


# Offline


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError("the network is blocked in this test")

    # The class stays one: other packages derive theirs from it when first imported.
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_files_need_no_network(no_network: None, tmp_path: Path) -> None:
    path = write_ranks(tmp_path / "x.tiktoken", SINGLE_BYTES)
    assert Tokenizer.from_tiktoken_file(path).same_vocabulary(Tokenizer.from_bytes())
    Tokenizer.from_gpt2_files(*write_pair(tmp_path, gpt2_vocabulary(), MERGES))


def test_gpt2_offline_says_what_to_do(
    no_network: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tiktoken.registry.ENCODINGS", {})
    with pytest.raises(TokenizerError, match="could not fetch .* go online once, or"):
        Tokenizer.gpt2()

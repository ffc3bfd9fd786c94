"""The exported tokenizer gives our ids: in transformers, and in tokenizers itself."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minispec.files.checkpoint.tokenizer_export import export_tokenizer, merges
from minispec.files.tokenizer import Tokenizer
from minispec.files.vocabulary import EOS

from support.vocabularies import SINGLE_BYTES, write_ranks

PLAY = """ROMEO:
But, soft! what light through yonder window breaks?
It is the east, and Juliet is the sun.   Arise, fair sun --
And kill th' envious moon, we'll say; 'tis 1597 o'clock.
"""
# Tokens that are made in one way, in several ways, and by no merge at all.
MADE = [
    b"th", b"he", b"the", b" t", b" th", b" the", b"  ", b"   ", b"\n\n", b"an", b"nd",
    b"and", "é".encode(), "🤗".encode()[:2], "🤗".encode(), b"romeo", b"1597", b"'ll",
]  # fmt: skip

texts = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(
    "the and\n 'll 1597 é🤗"
)))  # fmt: skip


def tokenizer_of(tokens, folder):
    path = write_ranks(folder / "tokenizer.tiktoken", SINGLE_BYTES[::-1] + tokens)
    return Tokenizer.from_tiktoken_file(path)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Ours, and the same as transformers and tokenizers (serving engines) load it."""
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    tokenizers = pytest.importorskip("tokenizers", reason="needs transformers")
    folder = tmp_path_factory.mktemp("export")
    ours = tokenizer_of(MADE, folder)
    export_tokenizer(ours, folder, n_positions=99)
    (folder / "tokenizer.tiktoken").unlink()
    assert Tokenizer.from_folder(folder).same_vocabulary(ours)
    core = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    return ours, transformers.AutoTokenizer.from_pretrained(folder), core


@given(texts)
@example(PLAY)
@example("the   the    and\n\n\nromeo romeo")
@example(f"the{EOS} and {EOS}")
def test_the_same_ids_and_the_same_text(both, text):
    ours, theirs, core = both
    ids = ours.encode(text, allow_special=True)
    assert theirs(text)["input_ids"] == core.encode(text).ids == ids
    assert theirs.decode(ids) == core.decode(ids, skip_special_tokens=False) == text
    assert core.decode(ids) == text.replace(EOS, "")


def test_what_transformers_knows_of_it(both):
    ours, theirs, _ = both
    assert len(theirs) == ours.vocab_size
    assert theirs.eos_token_id == theirs.bos_token_id == ours.eos_id
    assert theirs.model_max_length == 99
    assert theirs.clean_up_tokenization_spaces is False
    assert theirs.decode([ours.eos_id, 5], skip_special_tokens=True) == ours.decode([5])


def test_each_way_to_make_a_token_is_a_merge():
    rank_of = {b"a": 0, b"b": 1, b"ab": 2, b"ba": 3, b"aba": 4, b"xyz": 5}
    assert merges(rank_of) == [
        (b"a", b"b"), (b"b", b"a"), (b"a", b"ba"), (b"ab", b"a"),
    ]  # fmt: skip


def joined(word, merges_in_order):
    """BPE by a list of merges: the leftmost pair of the best merge, again and again."""
    place = {pair: i for i, pair in enumerate(merges_in_order)}
    parts = [bytes([b]) for b in word]
    while True:
        pairs = enumerate(zip(parts, parts[1:]))
        found = [(place[pair], i) for i, pair in pairs if pair in place]
        if not found:
            return parts
        _, i = min(found)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]


@given(
    tokens=st.lists(st.text("abc", min_size=2, max_size=5), max_size=12, unique=True),
    words=st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=5),
)
@example(tokens=["ab", "abc", "ca"], words=["abca"])  # a long token before a short one
def test_the_merges_in_order_make_tiktokens_tokens(tmp_path_factory, tokens, words):
    """A word that is a token is taken whole; all others are merged."""
    encoded = [token.encode() for token in tokens]
    tokenizer = tokenizer_of(encoded, tmp_path_factory.getbasetemp())
    rank_of = {tokenizer.decode_bytes([i]): i for i in range(tokenizer.vocab_size - 1)}
    for word in (word.encode() for word in words):
        whole = [word] if word in rank_of else joined(word, merges(rank_of))
        assert [rank_of[part] for part in whole] == tokenizer.encode(word.decode())

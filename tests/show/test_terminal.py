"""Labels, fates, colours and tables say what the rounds say."""

from __future__ import annotations

import base64
import re
import unicodedata
from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from minispec.core.rounds import Round, Rows
from minispec.files.tokenizer import Tokenizer
from minispec.files.vocabulary import EOS
from minispec.show.terminal import Paint, fates, labels, quoted, round_table

BYTES = Tokenizer.from_bytes()
COLOURED = Paint(True, on_terminal=True)
PLAIN = Paint(False)
CODES = re.compile(r"\x1b\[[0-9;]*m")


def make_round(drafted: bytes, n_accepted: int, extra: bytes = b"") -> Round:
    """The round that accepts so many of `drafted` and then commits `extra`."""
    rows = Rows(torch.full((len(drafted), 257), 0.25), torch.full((9, 257), 0.5))
    committed = (*drafted[:n_accepted], *extra)
    return Round(tuple(drafted), n_accepted, committed, None, rows)


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    """Any round: nothing drafted, some or all accepted, cut before its extra token."""
    drafted = draw(st.binary(max_size=5))
    n_accepted = draw(st.integers(0, len(drafted)))
    cut = n_accepted > 0 and draw(st.booleans())
    extra = b"" if cut else draw(st.binary(min_size=1, max_size=1))
    return make_round(drafted, n_accepted, extra)


@pytest.mark.parametrize(
    "one, expected_labels, expected_fates",
    [
        (make_round(b"abc", 3, b"d"), "aaab", "aaa"),
        (make_round(b"abc", 1, b"d"), "ar", "arn"),
        (make_round(b"abc", 0, b"d"), "r", "rnn"),
        (make_round(b"abc", 2), "aa", "aan"),  # cut at an EOS or a stop text
        (make_round(b"", 0, b"d"), "p", ""),
    ],
)
def test_every_token_has_its_label_and_every_draft_its_fate(
    one: Round, expected_labels: str, expected_fates: str
) -> None:
    tokens, found = zip(*labels(one))
    assert tokens == one.committed
    assert "".join(label[0] for label in found) == expected_labels
    assert "".join(fate[0] for fate in fates(one)) == expected_fates


@given(st.text(), st.sampled_from(["accepted", "resampled", "bonus", "plain"]))
def test_a_terminal_gets_our_colours_and_no_other_control(
    text: str, label: str
) -> None:
    """In a file the text stays what it is; only colours are added, if wanted."""
    assert PLAIN(text, label) == text
    ours = r"^\x1b\[3[126]m|\x1b\[0m$"
    painted = Paint(True)(text, label)
    assert painted == text if label == "plain" else re.sub(ours, "", painted) == text
    rest = re.sub(ours, "", COLOURED(text, label))
    kinds = {unicodedata.category(c) for c in rest if c not in "\n\t\u200c\u200d"}
    assert not kinds & {"Cc", "Cf", "Zl", "Zp"}


def test_what_cannot_be_seen_is_shown() -> None:
    text = "\x1b[2J\r\x07\x9b\tok\n\u202e\u2028\u200b漢 é"
    shown = "␛[2J␍␇<U+009B>\tok\n<U+202E><U+2028><U+200B>漢 é"
    assert COLOURED(text, "plain") == Paint(False, True)(text, "bonus") == shown
    family = "\N{MAN}\u200d\N{WOMAN}"  # one picture: the joiner is needed
    assert COLOURED(family, "plain") == family


# ---------------------------------------------------------------------------- tables


def test_the_table_of_a_round() -> None:
    one = make_round(b"a\xe2\n", 1, b"\x1b")
    assert one.rows is not None
    one.rows.draft_probs[0, ord("a")] = 0.75
    one.rows.target_probs[1, 0xE2] = 4e-5
    one.rows.target_probs[2, ord("\n")] = 0
    assert round_table(one, 7, BYTES, PLAIN).splitlines() == [
        "round 7: drafted 3",
        "  'a'              draft 0.750  target 0.500  accepted",
        "  b'\\xe2'          draft 0.250  target 4e-05  rejected",
        "  '\\n'             draft 0.250  target 0.000  not judged",
        "  '\\x1b'           resampled",
    ]


@given(rounds())
def test_a_table_has_a_line_for_each_token_and_no_control_characters(
    one: Round,
) -> None:
    table = CODES.sub("", round_table(one, 1, BYTES, COLOURED))
    assert table == round_table(one, 1, BYTES, PLAIN)
    lines = table.split("\n")
    assert len(lines) == 1 + len(one.tokens) + (one.extra is not None)
    assert all(line.isprintable() for line in lines)


def test_quoted_tells_every_token_from_every_other() -> None:
    texts = [quoted(BYTES, token) for token in range(257)]
    assert len(set(texts)) == 257
    for token, text in enumerate(texts):
        assert eval(text) in (EOS, bytes([token % 256]), chr(token))


def test_wide_characters_keep_the_columns(tmp_path: Path) -> None:
    tokens = [bytes([b]) for b in range(256)] + ["漢字".encode()]
    lines = (b"%s %d\n" % (base64.b64encode(t), i) for i, t in enumerate(tokens))
    (tmp_path / "words.tiktoken").write_bytes(b"".join(lines))
    tokenizer = Tokenizer.from_folder(tmp_path)
    row = round_table(Round((), 0, (256,), None), 1, tokenizer, PLAIN).splitlines()[1]
    assert row == "  '漢字'" + " " * 11 + "plain"

"""The trace: labels, colours and tables say what the rounds say."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from minispec.generation import DraftedToken, Round
from minispec.tokenizer import StreamDecoder, Tokenizer
from minispec.vocabulary import EOS
from minispec.trace import Paint, coloured_text, labels, legend, quoted, round_table

BYTES = Tokenizer.from_bytes()
COLOURED = Paint(True, on_terminal=True)
PLAIN = Paint(False)
CODES = re.compile(r"\x1b\[[0-9;]*m")


def make_round(drafted: bytes, n_accepted: int, extra: bytes = b"") -> Round:
    """The round that accepts so many of `drafted` and then commits `extra`."""
    fates = ["accepted"] * n_accepted + ["refused"] + ["unread"] * len(drafted)
    tokens = tuple(
        DraftedToken(token, 0.25, 0.5, fate)  # type: ignore[arg-type]
        for token, fate in zip(drafted, fates)
    )
    return Round(tokens, (*drafted[:n_accepted], *extra), None)


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    """Any round: nothing drafted, some or all accepted, cut before its extra token."""
    drafted = draw(st.binary(max_size=5))
    n_accepted = draw(st.integers(0, len(drafted)))
    cut = n_accepted > 0 and draw(st.booleans())
    extra = b"" if cut else draw(st.binary(min_size=1, max_size=1))
    return make_round(drafted, n_accepted, extra)


rounds_of_a_text = st.lists(rounds(), max_size=6)


# ---------------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    "round, expected",
    [
        (make_round(b"abc", 3, b"d"), "accepted accepted accepted bonus"),
        (make_round(b"abc", 1, b"d"), "accepted resampled"),
        (make_round(b"abc", 0, b"d"), "resampled"),
        (make_round(b"abc", 2), "accepted accepted"),  # cut at an EOS or the budget
        (make_round(b"", 0, b"d"), "plain"),
    ],
)
def test_each_committed_token_has_its_label(round: Round, expected: str) -> None:
    assert list(labels(round)) == [*zip(round.committed, expected.split())]


# --------------------------------------------------------------------------- colours


@given(rounds_of_a_text)
def test_colours_add_nothing_but_colours(text: list[Round]) -> None:
    """In a file: exactly the text. On a terminal: the same, codes taken out."""
    tokens = [token for round in text for token in round.committed]
    expected = BYTES.decode(tokens)
    for paint in (PLAIN, Paint(True)):
        decoder = StreamDecoder(BYTES)
        pieces = [coloured_text(round, decoder, paint) for round in text]
        shown = "".join(pieces) + decoder.flush()
        own_codes = r"\x1b\[(?:32|31|36|0)m"
        assert re.sub(own_codes, "", shown) == re.sub(own_codes, "", expected)
        assert paint.enabled or shown == expected


@given(rounds_of_a_text)
def test_a_terminal_gets_no_control_but_our_colours(text: list[Round]) -> None:
    decoder = StreamDecoder(BYTES)
    shown = "".join(coloured_text(round, decoder, COLOURED) for round in text)
    rest = CODES.sub("", shown)
    assert all(c in "\n\t" or c >= " " for c in rest)
    assert not re.search("[\x7f-\x9f]", rest)


def test_a_character_takes_the_colour_of_its_last_token() -> None:
    decoder = StreamDecoder(BYTES)
    shown = coloured_text(make_round(b"a\xc3", 2, b"\xa9"), decoder, COLOURED)
    assert shown == "\x1b[32ma\x1b[0m\x1b[36mé\x1b[0m"


def test_hidden_tokens_are_not_shown() -> None:
    round = Round((), (97, BYTES.eos_id), "eos")
    assert coloured_text(round, StreamDecoder(BYTES), PLAIN, {BYTES.eos_id}) == "a"
    assert coloured_text(round, StreamDecoder(BYTES), PLAIN) == "a" + EOS


def test_escapes_in_a_text_stay_in_files_and_become_pictures_on_terminals() -> None:
    text = "\x1b[2J\r\x07\x9b\tok\n"
    assert PLAIN(text, "plain") == text
    assert COLOURED(text, "plain") == "␛[2J␍␇\N{REPLACEMENT CHARACTER}\tok\n"
    assert Paint(False, on_terminal=True)(text, "bonus").startswith("␛")  # NO_COLOR


def test_the_legend_is_in_the_colours_it_explains() -> None:
    assert legend(PLAIN) == "accepted  resampled  bonus"
    assert legend(COLOURED).startswith("\x1b[32maccepted\x1b[0m")


# ---------------------------------------------------------------------------- tables


def test_the_table_of_a_round() -> None:
    drafted = (
        DraftedToken(ord("a"), 0.75, 0.9375, "accepted"),
        DraftedToken(0xE2, 0.5, 0.125, "refused"),
        DraftedToken(ord("\n"), 1.0, 0.0, "unread"),
    )
    round = Round(drafted, (ord("a"), 0x1B), None)
    assert round_table(round, 7, BYTES, PLAIN).splitlines() == [
        "round 7: drafted 3",
        "  'a'              draft 0.750  target 0.938  accepted",
        "  b'\\xe2'          draft 0.500  target 0.125  refused",
        "  '\\n'             draft 1.000  target 0.000  unread",
        "  '\\x1b'           resampled",
    ]


def test_the_table_of_a_round_without_drafts_and_of_one_cut_short() -> None:
    plain = round_table(make_round(b"", 0, b"x"), 1, BYTES, PLAIN)
    assert plain == "round 1: drafted 0\n  'x'              plain"
    cut = round_table(make_round(b"xy", 1), 2, BYTES, PLAIN).splitlines()
    assert len(cut) == 3 and cut[-1].endswith("refused")


@given(rounds())
def test_a_table_has_a_line_for_each_token_and_no_control_characters(
    round: Round,
) -> None:
    n_lines = 1 + len(round.drafted) + (round.extra is not None)
    table = round_table(round, 1, BYTES, COLOURED)
    assert table.count("\n") == n_lines - 1
    plain = CODES.sub("", table)
    assert plain == round_table(round, 1, BYTES, PLAIN)
    assert all(line.isprintable() for line in plain.split("\n"))


@given(st.integers(0, 256))
def test_quoted_tells_every_token_from_every_other(token: int) -> None:
    texts = [quoted(BYTES, other) for other in range(257)]
    assert texts.count(texts[token]) == 1
    assert eval(texts[token]) in (EOS, bytes([token % 256]), chr(token))
    assert "\N{REPLACEMENT CHARACTER}" not in texts[token]


def test_wide_characters_keep_the_columns(tmp_path: Path) -> None:
    tokens = [bytes([b]) for b in range(256)] + ["漢字".encode()]
    lines = (b"%s %d\n" % (base64.b64encode(t), i) for i, t in enumerate(tokens))
    (tmp_path / "words.tiktoken").write_bytes(b"".join(lines))
    tokenizer = Tokenizer.from_folder(tmp_path)
    round = Round((), (256,), None)
    row = round_table(round, 1, tokenizer, PLAIN).splitlines()[1]
    assert row == "  '漢字'" + " " * 11 + "plain"

"""A decode on a terminal: every token coloured by what became of the draft.

    accepted   green    the target accepted the draft's token
    resampled  red      the target rejected a draft and drew this instead
    bonus      cyan     all drafts were accepted, so this one came for free
    plain               the target's own token; nothing had been drafted

Colours are escape codes for a terminal; `Paint(False)` leaves the text as it is.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from minispec.core.rounds import Round
from minispec.files.tokenizer import Tokenizer

Fate = Literal["accepted", "rejected", "not judged"]
COLOURS = {"accepted": "32", "resampled": "31", "bonus": "36", "rejected": "9;2"}
TOKEN_WIDTH = 16  # columns of a token in a table
INVISIBLE = ("Cc", "Cf", "Zl", "Zp")  # control, format, ends of lines and paragraphs
NEEDED = "\n\t\u200c\u200d"  # emoji and some scripts need the joiners


@dataclass(frozen=True)
class Paint:
    """Puts a text in the colour of a label, if colours are wanted.

    A terminal obeys control characters: one escape sequence or one change of direction
    in a model's text could hide, move or recolour the rest. There they are made
    visible. In a file the text stays what it is.
    """

    enabled: bool
    on_terminal: bool = False

    def __call__(self, text: str, label: str) -> str:
        if self.on_terminal:
            text = "".join(map(visible, text))
        if not self.enabled or not text or label not in COLOURS:
            return text
        return f"\x1b[{COLOURS[label]}m{text}\x1b[0m"


def visible(character: str) -> str:
    """A picture for a control code (U+001B is shown as U+241B), else <U+202E>."""
    code = ord(character)
    if character in NEEDED or unicodedata.category(character) not in INVISIBLE:
        return character
    return chr(0x2400 + code) if code < 32 else f"<U+{code:04X}>"


def fates(one: Round) -> list[Fate]:
    """What became of each draft.

    After a rejection, and after an EOS among the accepted, no draft is judged.
    """
    n, K = one.n_accepted, len(one.tokens)
    names: list[Fate] = ["accepted"] * n
    names += ["rejected"] * (one.judged - n)
    return names + ["not judged"] * (K - one.judged)


def labels(one: Round) -> Iterator[tuple[int, str]]:
    """Each committed token of a round with what it is, in order."""
    for i, token in enumerate(one.committed):
        yield token, "accepted" if i < one.n_accepted else one.extra or "plain"


def legend(paint: Paint) -> str:
    """What the colours mean, in one line."""
    return "  ".join(paint(name, name) for name in ("accepted", "resampled", "bonus"))


def round_table(one: Round, number: int, tokenizer: Tokenizer, paint: Paint) -> str:
    """One round in numbers: a line for each draft, and one for the extra token.

    The round must still have its rows.
    """
    lines = [f"round {number}: drafted {len(one.tokens)}"]
    for i, (token, fate) in enumerate(zip(one.tokens, fates(one))):
        assert one.rows is not None
        draft, target = (rows[i, token].item() for rows in one.rows)
        colour = "accepted" if fate == "accepted" else "rejected"
        lines.append(
            f"  {column(tokenizer, token, paint, colour)}"
            f" draft {shown(draft)}  target {shown(target)}  {fate}"
        )
    if one.extra is not None:
        token = one.committed[-1]
        lines.append(f"  {column(tokenizer, token, paint, one.extra)} {one.extra}")
    return "\n".join(lines)


def shown(prob: float) -> str:
    """Three digits, but a small one as 4e-05: it may be why a draft was rejected."""
    return f"{prob:.0e}" if 0 < prob < 0.001 else f"{prob:.3f}"


def column(tokenizer: Tokenizer, token: int, paint: Paint, label: str) -> str:
    """A token quoted and painted, and spaces up to `TOKEN_WIDTH` of a terminal."""
    text = quoted(tokenizer, token)
    width = sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)
    return paint(text, label) + " " * (TOKEN_WIDTH - width)


def quoted(tokenizer: Tokenizer, token: int) -> str:
    """A token as Python writes it: spaces and control characters are visible.

    A token may be a part of a character; it is shown as its bytes, b'\\xe2\\x80'.
    """
    data = tokenizer.decode_bytes([token])
    try:
        return repr(data.decode("utf-8"))
    except UnicodeDecodeError:
        return repr(data)

"""A decode made visible: every drafted token coloured by its fate.

    accepted   green    the target kept the draft's proposal
    resampled  red      the target refused a proposal and drew this instead
    bonus      cyan     all proposals were kept, so this one came for free
    plain               the target's own token; nothing had been proposed

Colours are escape codes for a terminal; `Paint(False)` leaves the text as it is.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from minispec.generation import Round
from minispec.tokenizer import StreamDecoder, Tokenizer

COLOURS = {"accepted": "32", "resampled": "31", "bonus": "36", "refused": "9;2"}
TOKEN_WIDTH = 16  # columns of a token in a table

# Control characters and what stands for them: U+2400 on are their pictures.
PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
PICTURES |= {127: 0x2421, **dict.fromkeys(range(128, 160), 0xFFFD)}


@dataclass(frozen=True)
class Paint:
    """Puts a text in the colour of a fate, if colours are wanted.

    A terminal obeys control characters: one escape sequence in a model's text could
    hide, move or recolour the rest. There they become pictures (U+001B is shown as
    U+241B). In a file the text stays what it is.
    """

    enabled: bool
    on_terminal: bool = False

    def __call__(self, text: str, fate: str) -> str:
        if self.on_terminal:
            text = text.translate(PICTURES)
        if not self.enabled or not text or fate not in COLOURS:
            return text
        return f"\x1b[{COLOURS[fate]}m{text}\x1b[0m"


def labels(round: Round) -> Iterator[tuple[int, str]]:
    """Each committed token of a round with what it is, in order."""
    for i, token in enumerate(round.committed):
        if i < round.n_accepted:
            yield token, "accepted"
        else:
            yield token, extra_label(round)


def extra_label(round: Round) -> str:
    """What to call the token that was not drafted."""
    return round.extra or "plain" if round.drafted else "plain"


def coloured_text(
    round: Round,
    decoder: StreamDecoder,
    paint: Paint,
    hidden: Collection[int] = (),
) -> str:
    """The text a round added, but for `hidden` tokens (EOS is no text).

    A character made of several tokens takes the colour of the last.
    """
    shown = ((token, label) for token, label in labels(round) if token not in hidden)
    return "".join(paint(decoder.push([token]), label) for token, label in shown)


def legend(paint: Paint) -> str:
    """What the colours mean, in one line."""
    return "  ".join(paint(name, name) for name in ("accepted", "resampled", "bonus"))


def round_table(round: Round, number: int, tokenizer: Tokenizer, paint: Paint) -> str:
    """One round in numbers: a line for each proposal, and one for the extra token."""
    lines = [f"round {number}: drafted {len(round.drafted)}"]
    for drafted in round.drafted:
        colour = "accepted" if drafted.fate == "accepted" else "refused"
        lines.append(
            f"  {column(tokenizer, drafted.token, paint, colour)}"
            f" draft {drafted.draft_prob:.3f}  target {drafted.target_prob:.3f}"
            f"  {drafted.fate}"
        )
    if round.extra is not None:
        label = extra_label(round)
        token = round.committed[-1]
        lines.append(f"  {column(tokenizer, token, paint, label)} {label}")
    return "\n".join(lines)


def column(tokenizer: Tokenizer, token: int, paint: Paint, fate: str) -> str:
    """A token quoted and painted, and spaces up to `TOKEN_WIDTH` of a terminal."""
    text = quoted(tokenizer, token)
    width = sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)
    return paint(text, fate) + " " * (TOKEN_WIDTH - width)


def quoted(tokenizer: Tokenizer, token: int) -> str:
    """A token as Python writes it: spaces and control characters are visible.

    A token may be a part of a character; it is shown as its bytes, b'\\xe2\\x80'.
    """
    data = tokenizer.decode_bytes([token])
    try:
        return repr(data.decode("utf-8"))
    except UnicodeDecodeError:
        return repr(data)

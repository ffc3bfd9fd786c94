"""A decode made visible: every drafted token coloured by its fate.

    accepted   green    the target kept the draft's proposal
    resampled  red      the target refused a proposal and drew this instead
    bonus      cyan     all proposals were kept, so this one came for free
    plain               the target's own token; nothing had been proposed

Colours are escape codes for a terminal; `Paint(False)` leaves the text as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from minispec.speculative import Round
from minispec.tokenizer import StreamDecoder, Tokenizer

COLOURS = {"accepted": "32", "resampled": "31", "bonus": "36", "refused": "9;2"}


@dataclass(frozen=True)
class Paint:
    """Puts a text in the colour of a fate, if colours are wanted."""

    enabled: bool

    def __call__(self, text: str, fate: str) -> str:
        if not self.enabled or not text or fate not in COLOURS:
            return text
        return f"\x1b[{COLOURS[fate]}m{text}\x1b[0m"


def labels(round: Round) -> Iterator[tuple[int, str]]:
    """Each committed token of a round with what it is, in order."""
    for i, token in enumerate(round.committed):
        if i < round.n_accepted:
            yield token, "accepted"
        elif round.drafted:
            yield token, round.extra or "plain"
        else:
            yield token, "plain"


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
        text = paint(f"{quoted(tokenizer, drafted.token):<16}", colour)
        lines.append(
            f"  {text} draft {drafted.draft_prob:.3f}  target {drafted.target_prob:.3f}"
            f"  {drafted.fate}"
        )
    if round.extra is not None:
        label = round.extra if round.drafted else "plain"
        text = paint(f"{quoted(tokenizer, round.committed[-1]):<16}", label)
        lines.append(f"  {text} {label}")
    return "\n".join(lines)


def quoted(tokenizer: Tokenizer, token: int) -> str:
    """A token's text with its spaces and line ends visible."""
    return repr(tokenizer.decode([token]))

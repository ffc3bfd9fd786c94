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

from minispec.core.rejection import Judge, reject
from minispec.core.rounds import Round
from minispec.files.tokenizer import Tokenizer
from minispec.judges.block import reject_block
from minispec.trees.rounds import TreeRound
from minispec.trees.tree import Parents, children, depths

Fate = Literal["accepted", "rejected", "not judged"]
COLOURS = {"accepted": "32", "resampled": "31", "bonus": "36", "rejected": "9;2"}
TOKEN_WIDTH = 16  # columns of a token in a table
INVISIBLE = ("Cc", "Cf", "Zl", "Zp")  # control, format, ends of lines and paragraphs
NEEDED = "\n\t\u200c\u200d"  # emoji and some scripts need the joiners

RULES = {  # what decides over the drafts of a table, by the judge's name
    "reject": "a draft is accepted with probability min(1, target / draft)",
    "block": "the drafts of a round are judged together, by the product of their "
    "target / draft, not one by one",
    "typical": "a draft is accepted if target is above a threshold, which is lower "
    "where the target is unsure; draft does not count",
    "lenient": "a draft is accepted with probability min(1, 2 target / draft)",
    "top-k": "a draft is accepted if it is among the target's 2 most probable tokens",
    "tree": "siblings are tried in turn, with probability min(1, target / draft); "
    "after a rejection, target is only what is left over of the one shown",
}


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


def fates(one: Round, judge: Judge = reject) -> list[Fate]:
    """What became of each draft.

    After a rejection, and after an EOS among the accepted, no draft is judged; block
    verification judges all drafts together. In a tree the siblings before an accepted
    node are rejected, and those after not judged.
    """
    if isinstance(one, TreeRound):
        return tree_fates(one)
    n, K = one.n_accepted, len(one.tokens)
    n_judged = K if judge is reject_block and one.extra else one.judged
    names: list[Fate] = ["accepted"] * n
    names += ["rejected"] * (n_judged - n)
    return names + ["not judged"] * (K - n_judged)


def tree_fates(one: TreeRound) -> list[Fate]:
    """What became of each node."""
    below = children(one.parents)
    found: list[Fate] = ["not judged"] * len(one.tokens)
    for node, kept in zip([-1, *one.path], [*one.path, None][: one.judged]):
        for child in below[node]:
            found[child] = "accepted" if child == kept else "rejected"
            if child == kept:
                break
    return found


def labels(one: Round) -> Iterator[tuple[int, str]]:
    """Each committed token of a round with what it is, in order."""
    for i, token in enumerate(one.committed):
        yield token, "accepted" if i < one.n_accepted else one.extra or "plain"


def legend(paint: Paint) -> str:
    """What the colours mean, in one line."""
    return "  ".join(paint(name, name) for name in ("accepted", "resampled", "bonus"))


def round_table(
    one: Round, number: int, tokenizer: Tokenizer, paint: Paint, judge: Judge = reject
) -> str:
    """One round in numbers: a line for each draft, and one for the extra token.

    In a tree each node comes after its parent, further to the right. The round must
    still have its rows.
    """
    form = "a tree of " if isinstance(one, TreeRound) else ""
    lines = [f"round {number}: drafted {form}{len(one.tokens)}"]
    found, parents = fates(one, judge), parents_of(one)
    levels = depths(parents) if isinstance(one, TreeRound) else [1] * len(parents)
    for i in in_order(parents):
        assert one.rows is not None
        token, fate, before = one.tokens[i], found[i], parents[i] + 1
        draft = one.rows.draft_probs[i, token].item()
        target = one.rows.target_probs[before, token].item()
        colour = "accepted" if fate == "accepted" else "rejected"
        lines.append(
            f"{'  ' * levels[i]}{column(tokenizer, token, paint, colour)}"
            f" draft {shown(draft)}  target {shown(target)}  {fate}"
        )
    if one.extra is not None:
        token = one.committed[-1]
        lines.append(f"  {column(tokenizer, token, paint, one.extra)} {one.extra}")
    return "\n".join(lines)


def parents_of(one: Round) -> Parents:
    """The draft before each, -1 for the prefix: a chain is a tree too."""
    if isinstance(one, TreeRound):
        return one.parents
    return tuple(range(-1, len(one.tokens) - 1))


def in_order(parents: Parents) -> Iterator[int]:
    """The nodes as one reads a tree: each is followed by all that hangs below it."""
    below, waiting = children(parents), [-1]
    while waiting:
        node = waiting.pop()
        waiting += reversed(below[node])
        if node >= 0:
            yield node


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

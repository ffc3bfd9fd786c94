"""The exercises as data, read from exercises.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

TEXT = Path(__file__).with_name("exercises.md")


class Exercise(NamedTuple):
    """One exercise; `functions` are "core/verify.py:verify", below minispec/."""

    number: int
    title: str
    functions: tuple[str, ...]
    asks: str  # all of the text but the hints
    hints: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return [function.partition(":")[2] for function in self.functions]


def read(text: str) -> dict[int, Exercise]:
    """{number: exercise}, in order."""
    found = {}
    for section in text.split("\n## ")[1:]:
        heading, body = section.split("\n", 1)
        number, title = heading.split(". ", 1)
        functions = re.findall(r"^- `(.+)`$", body, re.MULTILINE)
        paragraphs = body.strip().split("\n\n")
        hints = [one for one in paragraphs if one.startswith("Hint ")]
        asks = "\n\n".join(one for one in paragraphs if one not in hints)
        found[int(number)] = Exercise(
            int(number), title, tuple(functions), asks, tuple(hints)
        )
    return found


EXERCISES = read(TEXT.read_text(encoding="utf-8"))

"""The exercises as data, read from exercises.md.

To add one: a section there, in the place where it belongs, and `exerciseN` on the tests
that grade it. Nothing else has a list of exercises.
"""

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
    notebook: int  # the one to read before
    minutes: int
    points: int  # 1, 2 or 3: how difficult it is
    asks: str  # all of the text but the hints
    hints: tuple[str, ...]

    @property
    def files(self) -> list[str]:
        return [*dict.fromkeys(one.partition(":")[0] for one in self.functions)]

    def names_in(self, file: str) -> list[str]:
        parts = (one.partition(":") for one in self.functions)
        return [name for of, _, name in parts if of == file]


def read(text: str) -> dict[int, Exercise]:
    """{number: exercise}, in order."""
    found = {}
    for section in text.split("\n## ")[1:]:
        heading, body = section.split("\n", 1)
        number, title = heading.split(". ", 1)
        functions = re.findall(r"^- `(.+)`$", body, re.MULTILINE)
        about = re.search(r"^Notebook (\d+), (\d+) minutes, (\**)$", body, re.MULTILINE)
        assert about, f"{heading}: no line such as `Notebook 4, 20 minutes, **`"
        paragraphs = body.strip().split("\n\n")
        hints = tuple(one for one in paragraphs if one.startswith("Hint "))
        asks = "\n\n".join(one for one in paragraphs if one not in hints)
        found[int(number)] = Exercise(
            int(number),
            title,
            tuple(functions),
            int(about[1]),
            int(about[2]),
            len(about[3]),
            asks,
            hints,
        )
    return found


EXERCISES = read(TEXT.read_text(encoding="utf-8"))
# {"core/verify.py:verify": the number of its exercise}
FUNCTIONS = {f: one.number for one in EXERCISES.values() for f in one.functions}

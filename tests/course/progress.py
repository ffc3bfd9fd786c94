"""The file of verdicts: how each exercise went when it was graded last."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any


def known(path: Path) -> dict[str, dict[str, Any]]:
    """{"8": its verdict, points, ...}; nothing where there is no file yet.

    A damaged file is moved aside, and one sentence says so.
    """
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8") or "{}")
        if all(is_entry(one) for one in found.values()):
            return dict(found)
    except (ValueError, RecursionError, AttributeError):  # no JSON, or no object
        pass
    names = (path.with_name(f"{path.name}.damaged{n}") for n in itertools.count(1))
    aside = next(name for name in names if not name.exists())
    path.rename(aside)
    path.write_text("{}\n", encoding="utf-8")
    print(
        f"{path} is damaged, which is no fault of your code: it is kept as "
        f"{aside.name}, and exercises count as not graded until the next check",
        file=sys.stderr,
    )
    return {}


def is_entry(one: Any) -> bool:
    """Whether this is what the grader writes for an exercise."""
    try:
        return isinstance(one["verdict"], str) and one["points"] + one["at"] >= 0
    except (KeyError, TypeError):
        return False

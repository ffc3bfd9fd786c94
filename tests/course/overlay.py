"""The overlay: a copy of the package in which some functions or lines are replaced.

It goes in front of sys.path before `minispec` is imported, so whatever imports the
package afterwards, tests and commands alike, runs on it. Exercises (the learner's
functions), mistakes (old lines, new lines) and `exercises.py run` all use it.

Nothing here imports `minispec`: that would come too early.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "minispec"
# In a student's repository the package is stubs, and the reference lies packed in here.
PACKED = Path(__file__).with_name("reference.bin")


class Unusable(ValueError):
    """Why a file cannot be used, in one sentence."""


def reference(file: str) -> str:
    """The text of a file of the package, "core/verify.py", with all its solutions."""
    return packed().get(file) or (PACKAGE / file).read_text(encoding="utf-8")


def packed() -> dict[str, str]:
    """{"core/verify.py": its text} in a student's repository, else nothing."""
    if not PACKED.exists():
        return {}
    texts: dict[str, str] = json.loads(zlib.decompress(PACKED.read_bytes()))
    return texts


def pack(texts: Mapping[str, str]) -> bytes:
    """What `packed` reads. It keeps eyes off the solutions, and no one who unpacks."""
    return zlib.compress(json.dumps(dict(texts)).encode(), 9)


def put_in_front(texts: Mapping[str, str]) -> tempfile.TemporaryDirectory[str]:
    """Make `minispec` mean a copy with these files, {"core/verify.py": its text}.

    The copy lasts as long as the folder returned. Raises Unusable where the package
    was imported before.
    """
    if "minispec" in sys.modules:
        raise Unusable("minispec was imported before the overlay was made")
    folder = tempfile.TemporaryDirectory(prefix="minispec-")
    package = Path(folder.name, "minispec")
    half_written = shutil.ignore_patterns("*.pyc.*")
    shutil.copytree(PACKAGE, package, ignore=half_written)
    with suppress(OSError):  # not allowed: then the shipped pair is not found
        os.symlink(ROOT / "weights", Path(folder.name, "weights"))
    for file, text in {**packed(), **texts}.items():
        (package / file).write_text(text, encoding="utf-8")
    sys.path.insert(0, folder.name)
    return folder


def with_lines(file: str, changes: Iterable[tuple[str, str]]) -> str:
    """The file of the package with each old text, whole lines, replaced by the new.

    Raises Unusable for an old text that does not occur exactly once.
    """
    text = reference(file)
    for old, new in changes:
        if (n := f"\n{text}".count(f"\n{old}")) != 1:
            raise Unusable(f"{file} has these lines {n} times, not once:\n{old}")
        text = f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:]
    return text

"""A session of the grader, `pytest --impl=DIR -m exercise8`, and what it said."""

from __future__ import annotations

import importlib
import io
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from course.apart import Ended, apart
from course.overlay import ROOT


def warm_up() -> None:
    """Import what takes long, but not the package: forks that have it start quickly."""
    for name in ("numpy", "torch", "pytest", "hypothesis.strategies"):
        importlib.import_module(name)


def graded(folder: Path, numbers: Iterable[int], grades: Path) -> tuple[int, str]:
    """Grade these exercises, or all that are written together.

    Returns the exit status and what was said; `grades` is the file of verdicts.
    """
    options = [f"--impl={folder.resolve()}", f"--grades={grades.resolve()}"]
    options += ["-m", " or ".join(f"exercise{number}" for number in numbers)]
    options += ["-p", "no:cacheprovider", "-p", "no:warnings"]
    if not hasattr(os, "fork") or "minispec" in sys.modules:
        command = [sys.executable, "-m", "pytest", *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def session() -> tuple[int, str]:
        import pytest

        os.chdir(ROOT)
        os.dup2(2, 1)  # what a learner's process prints is not this command's output
        with redirect_stdout(io.StringIO()) as said, redirect_stderr(said):
            status = int(pytest.main(options))
        return status, said.getvalue()

    try:
        return apart(session, None)  # each test has its own limit
    except Ended as error:  # a thread of the learner's outlived its test
        return 1, f"ERROR: {error}\n"

"""Mistakes that people make, and the test file that must notice each.

    python tests/course/mistakes.py                    run them all: some minutes
    python tests/course/mistakes.py NAME ...           only these
    python tests/course/mistakes.py --list             what they are
    pytest --mistake NAME FILES                        see one being noticed

mistakes/*.diff hold them, each as

    name: core/rejection.py, noticed by core/test_rejection.py
        What is wrong, and who made it (a public report).
    -    the old lines
    +    the new lines

Each runs in a process of its own, on an overlay, until the first test fails.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from course.apart import Ended, apart, two_at_a_time  # noqa: E402
from course.overlay import ROOT, with_lines  # noqa: E402

LONGEST = 600  # seconds for one of them


class Mistake(NamedTuple):
    """One entry. `tests` are files below tests/: each alone must notice it."""

    name: str
    file: str
    tests: tuple[str, ...]
    what: str
    changes: tuple[tuple[str, str], ...]  # old lines, new lines

    def texts(self) -> dict[str, str]:
        """For the overlay. Raises Unusable where the old lines are not there."""
        return {self.file: with_lines(self.file, self.changes)}


def read(text: str) -> Iterator[Mistake]:
    """The entries of one file."""
    for entry in re.split(r"\n(?=\w+: )", text.strip()):
        head, *lines = entry.split("\n")
        name, file, tests = re.split(": |, noticed by ", head)
        what = " ".join(line.strip() for line in lines if line.startswith("    "))
        hunks = re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)*)", f"{entry}\n", re.MULTILINE)
        changes = tuple(
            (re.sub("^.", "", old, flags=re.M), re.sub("^.", "", new, flags=re.M))
            for old, new in hunks
        )
        yield Mistake(name, file, tuple(tests.split(", ")), what, changes)


FILES = sorted(Path(__file__).with_name("mistakes").glob("*.diff"))
ALL = [one for path in FILES for one in read(path.read_text(encoding="utf-8"))]
MISTAKES = {one.name: one for one in ALL}


def notice(case: tuple[Mistake, str]) -> str:
    """Run a test file with the mistake in it: the test that failed, or what else."""
    import pytest

    one, tests = case
    os.chdir(ROOT)
    options = ["-x", "--tb=short", "--mistake", one.name, "-p", "no:cacheprovider"]
    options += ["--hypothesis-profile=unshrunk", f"tests/{tests}"]
    with redirect_stdout(StringIO()) as said:
        status = pytest.main(options)
    failed = re.search(r"^FAILED tests/(\S+)", said.getvalue(), re.MULTILINE)
    slip = re.search(r"^E +(Name\w+|Unbound\w+): .*", said.getvalue(), re.M)
    if failed and not slip:
        return failed[1]
    what = (slip[0] if slip else said.getvalue()) if status else "not noticed"
    return f"{tests}: {what}"


def in_time(case: tuple[Mistake, str]) -> str:
    """What `notice` says, or that it did not end."""
    try:
        return apart(lambda: notice(case), LONGEST)
    except Ended as error:
        return f"{case[1]}: {error}\n{error.trace}"


def main(arguments: list[str]) -> int:
    """Run what is asked for; 1 if a mistake was not noticed."""
    if {"-h", "--help"} & {*arguments}:
        print((__doc__ or "").strip())
        return 0
    if arguments == ["--list"]:
        for one in MISTAKES.values():
            print(f"{one.name}: {one.file}\n    {one.what}")
        return 0
    if unknown := set(arguments) - {*MISTAKES}:
        print(f"no mistake has the name {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    chosen = [MISTAKES[name] for name in arguments or MISTAKES]
    cases = [(one, tests) for one in chosen for tests in one.tests]
    import hypothesis  # noqa: F401
    import torch  # noqa: F401  # forks that know it are quick to start

    with two_at_a_time() as pool:
        n_unnoticed = 0
        for (one, tests), how in zip(cases, pool.map(in_time, cases)):
            n_unnoticed += f"{tests}::" not in how
            print(f"{one.name:<50} {how}", flush=True)
    n = len(cases)
    print(f"{n_unnoticed} of {n} not noticed" if n_unnoticed else f"all {n} noticed")
    return 1 if n_unnoticed else 0


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"  # a fork waits for threads that it lost
    sys.exit(main(sys.argv[1:]))

"""The mistakes: each still fits the package, and its test file notices it."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from course import mistakes
from course.apart import two_at_a_time
from course.mistakes import ALL, MISTAKES, Mistake, TESTS
from course.overlay import Unusable


def test_all_old_lines_are_there_and_all_new_ones_compile() -> None:
    for mistake in ALL:
        for file, text in mistake.texts().items():
            compile(text, mistake.name, "exec")
        assert all((TESTS / tests).is_file() for tests in mistake.tests)
    assert len(ALL) == len(MISTAKES) >= 90  # no name twice


def test_old_lines_that_are_not_there_are_named() -> None:
    change = ("    no such line\n", "")
    with pytest.raises(Unusable, match="core/verify.py has these lines 0 times"):
        Mistake("x", "core/verify.py", (), "", (change,)).texts()


def run(*names: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, mistakes.__file__, *names]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_mistake_is_noticed_by_a_test_that_is_named() -> None:
    done = run("rollback_expects_every_cache_to_be_ahead")
    assert done.returncode == 0, done.stdout
    assert "core/test_rollback.py::test_" in done.stdout
    assert done.stdout.endswith("all 1 noticed\n")


def n_threads(_: int) -> int:
    return threading.active_count()


def test_what_forks_has_no_other_thread() -> None:
    """A lock that it held would never be released in the fork."""
    with two_at_a_time() as pool:
        assert {*pool.map(n_threads, range(4))} == {1}


@pytest.mark.slow
def test_all_mistakes_are_noticed() -> None:
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr

"""`pytest --impl=DIR -m exercise8`: the tests grade a learner's functions.

Of the exercises asked for, what the learner has written is in the overlay; everything
else is the package's own. Without -m that is all of the learner's work together, and
once all of it is written, the tests marked `capstone` run too.
"""

from __future__ import annotations

import importlib
import re
import signal
import traceback
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.errors import Flaky

from course.catalogue import EXERCISES, Exercise
from course.overlay import Unusable, is_written, put_in_front, with_functions

N_LINES, WIDTH = 16, 150  # of what is told of a failure


class Endless(BaseException):
    """What does not end. No Exception: hypothesis would try it once more."""


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise Endless after so many seconds by the clock on the wall."""

    def ring(*_: object) -> None:
        raise Endless(f"no end after {seconds:g} s: does a loop go on for ever?")

    if not hasattr(signal, "setitimer"):  # Windows has none
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)  # again, if an `except` took it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Grader:
    """The plugin. There is one for a session with --impl, and none without."""

    def __init__(self, folder: Path, config: pytest.Config) -> None:
        """Put what was written in front of the package. Raises Unusable."""
        if not folder.is_dir():
            raise Unusable(f"{folder}: no such folder; exercises.py start makes it")
        self.folder, self.seconds = folder.resolve(), config.getoption("--seconds")
        named = re.findall(r"\bexercise(\d+)\b", config.option.markexpr)
        numbers = {int(number) for number in named} or {*EXERCISES}
        self.asked = [one for n, one in EXERCISES.items() if n in numbers]
        functions = {one.number: [*one.functions] for one in self.asked}
        self.missing = {
            n: [f for f in functions[n] if not is_written(folder, f)] for n in functions
        }
        self.outcomes: dict[int, Counter[str]] = {n: Counter() for n in functions}
        self.failed = set[tuple[Path, int]]()
        config.option.tbstyle, config.option.reportchars = "short", ""
        if not config.getoption("--hypothesis-profile", None):
            settings.load_profile("learner")
        missing = [f for every in self.missing.values() for f in every]
        written = [f for n in functions for f in functions[n] if f not in missing]
        begun = [n for n in functions if self.missing[n] != functions[n]]
        self.markers = {f"exercise{n}": n for n in begun}
        if len(self.asked) == len(EXERCISES) and not missing:
            self.markers["capstone"] = 0
        texts = with_functions(self.folder, written)
        config.add_cleanup(put_in_front(texts).cleanup)
        for file in texts:
            self.try_import(file)

    def try_import(self, file: str) -> None:
        """Raises Unusable where the learner's file does not run."""
        try:
            with limit(self.seconds):
                name = file.removesuffix(".py").replace("/", ".")
                importlib.import_module(f"minispec.{name}")
        except (Exception, SystemExit, Endless) as error:
            where = self.learners_line(error) or f"{file}:"
            raise Unusable(f"does not run: {where} {described(error)[0]}") from error

    # ------------------------------------------------------------------ which tests

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Files without graded tests are not even imported: that takes time."""
        path = collection_path
        files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
        marked = re.compile(rf"mark\.({'|'.join(self.markers) or 'no exercise'})\b")
        if any(marked.search(file.read_text(encoding="utf-8")) for file in files):
            return None
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if self.graded_by(item)]

    def graded_by(self, item: pytest.Item) -> list[int]:
        """The exercises, among those asked for and begun, that a test grades."""
        return [n for name, n in self.markers.items() if item.get_closest_marker(name)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if {(item.path, number) for number in self.graded_by(item)} <= self.failed:
            pytest.skip("one failure of each file is enough to read")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        with limit(self.seconds):
            return (yield)

    # -------------------------------------------------------------- what became of it

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        report = yield
        if report.failed and call.excinfo is not None:
            self.failed |= {(item.path, number) for number in self.graded_by(item)}
            report.longrepr = self.told(item, call.excinfo.value)
        if report.when == "call" or report.failed:
            for number in self.graded_by(item):
                self.outcomes.setdefault(number, Counter())[report.outcome] += 1
        return report

    def told(self, item: pytest.Item, error: BaseException) -> str:
        """A failure: what the test says, what broke, what went in, and where."""
        doc = getattr(getattr(item, "obj", None), "__doc__", None) or ""
        lines = [line.strip() for line in doc.strip().splitlines()]
        lines += described(error)
        if not any(line.strip().startswith("expected: ") for line in lines):
            notes = "\n".join(getattr(error, "__notes__", [])).splitlines()
            lines += [line for line in notes if "=" in line][:N_LINES]
        if where := self.learners_line(error):
            lines.append(f"yours: {where}")
        return "\n".join(f"  {line:.{WIDTH}}" for line in lines)

    def learners_line(self, error: BaseException) -> str:
        """The learner's line that the error came through last, if there is one."""
        for frame in reversed(traceback.extract_tb(error.__traceback__)):
            if Path(frame.filename).is_relative_to(self.folder):
                file = Path(frame.filename).relative_to(self.folder)
                return f"{file}:{frame.lineno}: {frame.line}"
        return ""

    # ------------------------------------------------------------------------ the end

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not all(self.verdict(one).startswith("done") for one in self.asked):
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for one in self.asked:
            line = f"exercise {one.number}, {one.title}: {self.verdict(one)}"
            terminalreporter.write_line(line)
        if self.failed:
            skipped = "skipped: the tests of a file after its first failure"
            terminalreporter.write_line(skipped)

    def verdict(self, one: Exercise) -> str:
        """How far the exercise is, and what to do next."""
        passed = self.outcomes[one.number]["passed"]
        if self.outcomes[one.number]["failed"]:
            return f"read what broke, above; exercises.py hint {one.number} helps"
        if missing := self.missing[one.number]:
            so_far = f"{passed} passed; " if passed else ""
            return f"{so_far}not written yet: {', '.join(missing)}"
        if not passed:
            return "not graded: no test ran"
        return f"done, {passed} passed; now compare with minispec/"


def described(error: BaseException) -> list[str]:
    """What an error says, in few lines; its type unless it is an assertion."""
    if isinstance(error, Flaky):
        return [
            "the same arguments gave two different results: draw only through the "
            "randomness that is given, and remember nothing from call to call"
        ]
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
    if not isinstance(error, (AssertionError, Endless)):
        lines = [f"{type(error).__name__}: {(lines or [''])[0]}", *lines[1:]]
    more = ["..."] if len(lines) > N_LINES else []
    return lines[:N_LINES] + more or ["the assertion does not hold"]

"""`pytest --impl=DIR -m exercise8`: the tests grade a learner's functions.

Of the exercises asked for, what the learner has written is in the overlay; everything
else is the package's own. Without -m that is all of the learner's work together. Once
the exercises of notebooks 1 to 7 are written, which make a whole, the tests marked
`capstone` run too. Each test runs in a process of its own, with a limit of time and
memory.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import time
from collections import Counter
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from _pytest.runner import runtestprotocol
from hypothesis import settings
from hypothesis.internal.conjecture import engine

from course.apart import Ended, apart
from course.catalogue import EXERCISES, FUNCTIONS, Exercise
from course.learners import is_written, not_graded, with_functions
from course.overlay import Unusable, put_in_front
from course.progress import known
from course.telling import described, inputs, learners_line, line_in, told

WHOLE = 7  # with the exercises up to this notebook, the plain decoder is the learner's


class Grader:
    """The plugin. There is one for a session with --impl, and none without."""

    def __init__(self, folder: Path, config: pytest.Config) -> None:
        """Put what was written in front of the package. Raises Unusable."""
        if not folder.is_dir():
            raise Unusable(f"{folder}: no such folder; exercises.py start makes it")
        self.folder, self.seconds = folder.resolve(), config.getoption("--seconds")
        if not 0 < self.seconds < float("inf"):
            raise Unusable(f"--seconds must be above 0, got {self.seconds}")
        named = re.findall(r"\bexercise(\d+)\b", config.option.markexpr)
        numbers = {int(number) for number in named} or {*EXERCISES}
        self.asked = [one for n, one in EXERCISES.items() if n in numbers]
        functions = {one.number: [*one.functions] for one in self.asked}
        self.missing = {
            n: [f for f in functions[n] if not is_written(folder, f)] for n in functions
        }
        self.graded_by: dict[str, list[int]] = {}  # the exercises of a test
        self.outcomes: dict[int, Counter[str]] = {n: Counter() for n in functions}
        self.told: dict[int, str] = {}  # the first failure of each exercise
        self.failed = set[tuple[str, int]]()
        self.grades = config.getoption("--grades")
        config.option.tbstyle, config.option.reportchars = "short", ""
        if not config.getoption("--hypothesis-profile", None):
            settings.load_profile("learner")
        engine.MAX_SHRINKING_SECONDS = self.seconds / 3  # an example comes in time
        torch.set_num_threads(1)  # a fork waits for threads that it lost
        missing = [f for every in self.missing.values() for f in every]
        written = [f for n in functions for f in functions[n] if f not in missing]
        begun = [n for n in functions if self.missing[n] != functions[n]]
        self.markers = {f"exercise{n}": n for n in begun}
        whole = [one.number for one in self.asked if one.notebook <= WHOLE]
        if len(self.asked) == len(EXERCISES) and not any(map(self.missing.get, whole)):
            self.markers["capstone"] = 0
        texts = with_functions(self.folder, written)
        config.add_cleanup(put_in_front(texts).cleanup)
        try:
            self.try_import(written)
        except Ended as error:
            where = line_in(self.folder, error.trace) or ", ".join(texts)
            raise Unusable(f"does not run: {where}: {error}") from error

    def try_import(self, written: list[str]) -> None:
        """Raises Unusable where the learner's file does not run, or Ended."""
        for attempt in (lambda work: apart(work, self.seconds), lambda work: work()):
            if why := attempt(partial(self.import_error, written)):
                raise Unusable(why)

    def import_error(self, written: list[str]) -> str:
        """Why the learner's functions cannot be imported; nothing if they can."""
        for function in written:
            file, name = function.split(":")
            module = f"minispec.{file.removesuffix('.py').replace('/', '.')}"
            try:
                found: Any = importlib.import_module(module)
                for part in name.split("."):
                    found = getattr(found, part)
            except (Exception, SystemExit) as error:
                where = learners_line(self.folder, error) or f"{file}:"
                return f"does not run: {where} {described(error)[0]}"
            if not callable(found) or inspect.isclass(found):
                return f"{file}: {name} should be a function, got {found!r:.80}"
        return ""

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
        for item in items:
            names = [name for name in self.markers if item.get_closest_marker(name)]
            self.graded_by[item.nodeid] = [self.markers[name] for name in names]
        items[:] = [item for item in items if self.graded_by[item.nodeid]]

    # ---------------------------------------------------------------- running a test

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool:
        """In a process of its own; what it reports is told here."""
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self.reports(item):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def reports(self, item: pytest.Item) -> list[pytest.TestReport]:
        config, hook, began = item.config, item.config.hook, time.time()
        pickled = partial(hook.pytest_report_to_serializable, config=config)

        def run() -> list[Any]:
            return [pickled(report=one) for one in runtestprotocol(item, log=False)]

        try:
            texts = apart(run, self.seconds)
        except Ended as error:
            where, duration = line_in(self.folder, error.trace), time.time() - began
            why = told(doc_of(item), [str(error)], where)
            report = pytest.TestReport(
                item.nodeid, item.location, {}, "failed", why, "call", duration=duration
            )
            return [report]
        back = hook.pytest_report_from_serializable
        return [back(config=config, data=text) for text in texts]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        numbers = self.graded_by[item.nodeid]
        if {(item.nodeid.split("::")[0], number) for number in numbers} <= self.failed:
            pytest.skip("one failure of each file is enough to read")

    # -------------------------------------------------------------- what became of it

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        report = yield
        if report.failed and call.excinfo is not None:
            error = call.excinfo.value
            where = learners_line(self.folder, error)
            lines = described(error) + inputs(error)
            report.longrepr = told(doc_of(item), lines, where)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        vars(report).pop("_hypothesis_failing_examples", None)  # a patch for git
        report.sections = [one for one in report.sections if one[0] != "Hypothesis"]
        for number in self.graded_by[report.nodeid]:
            if report.failed:
                self.failed.add((report.nodeid.split("::")[0], number))
                self.told.setdefault(number, str(report.longrepr))
            if report.when == "call" or report.failed:
                self.outcomes.setdefault(number, Counter())[report.outcome] += 1

    # ------------------------------------------------------------------------ the end

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not all(self.verdict(one).startswith("done") for one in self.asked):
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        if self.grades:
            self.remember()

    def remember(self) -> None:
        """What became of each exercise that was asked for, in a file of all of them."""
        from minispec.files.whole import replacing  # the copy

        grades = known(self.grades) | self.as_grades()
        with replacing(self.grades) as part:
            part.write_text(json.dumps(grades, indent=1) + "\n", encoding="utf-8")

    def as_grades(self) -> dict[str, dict[str, Any]]:
        return {
            str(one.number): {
                "title": one.title,
                "points": one.points * self.verdict(one).startswith("done"),
                "of": one.points,
                "verdict": self.verdict(one),
                "message": self.told.get(one.number, ""),
                "at": time.time(),
            }
            for one in self.asked
        }

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for one in self.asked:
            line = f"exercise {one.number}, {one.title}: {self.verdict(one)}"
            terminalreporter.write_line(line)
        if self.failed:
            skipped = "skipped: the tests of a file after its first failure"
            terminalreporter.write_line(skipped)
        for line in not_graded(self.folder, FUNCTIONS):
            terminalreporter.write_line(f"warning: {line}")

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
        return f"done, {passed} passed; exercises.py compare {one.number}"


def doc_of(item: pytest.Item) -> str | None:
    return getattr(getattr(item, "obj", None), "__doc__", None)

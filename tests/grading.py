"""`pytest --impl DIR`: the tests grade a learner's functions and speak to the learner.

Every test that carries a marker `exerciseN` runs on a copy of the package in which the
functions of exercise N, and of no other, are the learner's. A test of two exercises
runs twice. Tests marked `capstone` run on all of the learner's functions at once; tests
of nothing that a learner writes do not run.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import Phase, settings

from grafting import UnusableFile, binding, graft, parse
from patience import Endless, fresh_calls, patience
from script_loader import load_script
from stories import Failure, Story, story
from telling import Calls, a

EXERCISES = load_script("exercises").EXERCISES
CAPSTONE = len(EXERCISES) + 1
TITLES = {one.number: one.title for one in EXERCISES} | {CAPSTONE: "all of it together"}
FILES = {
    name: file
    for one in EXERCISES
    for file, _, name in (function.partition(":") for function in one.functions)
}
N_SHOWN = 2  # failures of one exercise that are told; -v: all
PATIENCE = 30  # seconds of computing that one test may take


def numbers_of(definition: Any) -> list[int]:
    """The exercises that a test grades."""
    found = set()
    for marker in definition.iter_markers():
        if match := re.fullmatch(r"exercise(\d+)", marker.name):
            found.add(int(match[1]))
        elif marker.name == "capstone":
            found.add(CAPSTONE)
    return sorted(found)


class Grader:
    """The plugin. There is one for a session with --impl, and none without."""

    def __init__(self, folder: Path, config: pytest.Config) -> None:
        if not folder.is_dir():
            raise pytest.UsageError(
                f"--impl {folder}: no such folder; python scripts/start_exercises.py "
                f"{folder} makes it"
            )
        if getattr(config.option, "numprocesses", None):
            raise pytest.UsageError("--impl grades in one process: leave out -n")
        self.folder, self.config = folder.resolve(), config
        self.calls = Calls()
        self.outcomes: dict[int, list[str]] = {}
        self.stories: dict[int, list[Story]] = {}
        self.endless: set[int] = set()
        profile = config.getoption("--hypothesis-profile", None)
        self.patience = 0 if profile else PATIENCE
        config.option.tbstyle = "no"  # this plugin tells of failures itself
        config.option.reportchars = ""
        speak_to_learners()
        if self.patience:
            settings.register_profile(
                "learner",
                settings.get_profile("ci"),
                phases=[Phase.explicit, Phase.generate, Phase.shrink],
                report_multiple_bugs=False,
                print_blob=False,
            )
            settings.load_profile("learner")

    def namespace(self, number: int) -> Any:
        """The package with the learner's functions of this exercise."""
        wanted: dict[str, list[str]] = {}
        for one in EXERCISES:
            if number in (one.number, CAPSTONE):
                for function in one.functions:
                    file, name = function.split(":")
                    wanted.setdefault(file, []).append(name)
        return graft(self.folder, wanted, self.calls)

    # ------------------------------------------------------------ which tests, on what

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Files without graded tests are not even imported: that takes time."""
        if collection_path.suffix != ".py" or not collection_path.is_file():
            return None
        text = collection_path.read_text(encoding="utf-8")
        return None if re.search(r"mark\.(exercise\d|capstone)", text) else True

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        numbers = numbers_of(metafunc.definition)
        if numbers and "impl" in metafunc.fixturenames:
            names = [f"ex{n}" if n < CAPSTONE else "capstone" for n in numbers]
            metafunc.parametrize(
                "impl", numbers, indirect=True, ids=names, scope="session"
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        graded, other = [], []
        for item in items:
            number = exercise_of(item)
            (graded if number else other).append(item)
            # A test of two exercises is here once for each: -m picks the one meant.
            item.own_markers[:] = [
                marker
                for marker in item.own_markers
                if not re.fullmatch(r"exercise\d+", marker.name)
                or marker.name == f"exercise{number}"
            ]
        items[:] = sorted(graded, key=exercise_of)
        self.config.hook.pytest_deselected(items=other)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """A test of nothing but stubs can only fail: it need not run to do so."""
        number = exercise_of(item)
        if number in self.endless:
            raise Endless("not run: a test before it did not end")
        if number < CAPSTONE and len(self.stubs(number)) == len(functions(number)):
            raise NotImplementedError(f"exercise {number}: {TITLES[number]}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        with fresh_calls(item, self.calls), patience(self.patience):
            return (yield)

    @functools.cache
    def stubs(self, number: int) -> list[str]:
        """The functions of the exercise that are not written yet."""
        try:
            return [
                function.split(":")[1]
                for function in functions(number)
                if is_stub_in(parse(self.folder / function.split(":")[0]), function)
            ]
        except UnusableFile:
            return []

    # --------------------------------------------------------------- what became of it

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[Any]:
        report = yield
        number = exercise_of(item)
        outcomes = self.outcomes.setdefault(number, [])
        if report.failed and call.excinfo is not None:
            error = call.excinfo.value
            outcomes.append("stub" if is_stub(error) else "failed")
            if not is_stub(error) and number not in self.endless:
                failure = Failure(item, error, self.calls, self.folder, FILES)
                told = story(failure, report.capstdout)
                self.stories.setdefault(number, []).append(told)
            if isinstance(error, Endless):
                self.endless.add(number)
        elif report.passed and report.when == "call":
            outcomes.append("passed")
        self.calls.clear()
        return report

    # ------------------------------------------------------------------------- the end

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        write = terminalreporter.write_line
        for number, stories in sorted(self.stories.items()):
            terminalreporter.section(f"{label(number)} {TITLES[number]}")
            n = len(stories) if self.verbose else N_SHOWN
            shown = chosen(stories, n)
            for one in shown:
                write(f"{one.text}\n")
            if more := len(set(stories)) - len(shown):
                write(f"... and {more} more failed: -v tells of all\n")
        terminalreporter.section("exercises")
        write(f"{'exercise':<46}{'passed':>7}{'failed':>7}  what to do next")
        for number, outcomes in sorted(self.outcomes.items()):
            write(self.row(number, outcomes))
        if any({*outcomes} - {"passed"} for outcomes in self.outcomes.values()):
            write("--show and --hint are options of python scripts/start_exercises.py")

    @property
    def verbose(self) -> bool:
        """Whether -v was given: setup.cfg's -q counts as one less."""
        return self.config.option.verbose >= 0

    def row(self, number: int, outcomes: list[str]) -> str:
        """One line of the table."""
        passed = outcomes.count("passed")
        name = f"{label(number)} {TITLES[number]}"
        counts = f"{name:<46}{passed:>7}{len(outcomes) - passed:>7}  "
        return counts + self.advice(number, outcomes)

    def advice(self, number: int, outcomes: list[str]) -> str:
        """What to do next."""
        if number == CAPSTONE:
            if "stub" in outcomes:
                return "write all the exercises first"
            return "read what broke, above" if "failed" in outcomes else "all is exact"
        if stubs := self.stubs(number):
            return f"to be written: {', '.join(stubs)}; --show {number}"
        if "failed" in outcomes:
            return f"read what broke, above; --hint {number}"
        return f"done; read {EXERCISES[number - 1].read_next.partition(':')[0]}"


def speak_to_learners() -> None:
    """In this session: no model's whole tree, and the words of errors are free.

    The tests ask the reference for its very words; a learner's error has to be of the
    right type.
    """

    def short(self: torch.nn.Module) -> str:
        return a(type(self).__name__)

    def raises(*arguments: Any, match: Any = None, **keywords: Any) -> Any:
        return strict(*arguments, **keywords)

    strict = pytest.raises
    pytest.raises = raises  # type: ignore
    torch.nn.Module.__repr__ = short  # type: ignore


def chosen(stories: list[Story], n: int) -> list[Story]:
    """The shortest, then those of other tests and functions, and the shorter first."""
    first, *rest = sorted(dict.fromkeys(stories), key=lambda one: len(one.text))

    def alike(one: Story) -> tuple[bool, bool]:
        return one.title == first.title, one.about == first.about

    return [first, *sorted(rest, key=alike)][:n]


def functions(number: int) -> tuple[str, ...]:
    """What an exercise asks for, as "file:name"."""
    return EXERCISES[number - 1].functions


def exercise_of(item: Any) -> int:
    """The exercise that an item grades; 0 for none."""
    callspec = getattr(item, "callspec", None)
    value = callspec.params.get("impl", 0) if callspec else 0
    return value if isinstance(value, int) else 0


def is_stub(error: BaseException) -> bool:
    """Whether the function has not been written yet."""
    return isinstance(error, NotImplementedError) and "exercise" in str(error)


def is_stub_in(tree: ast.Module, function: str) -> bool:
    """Whether this "file:name" still only says that it is an exercise."""
    bound = binding(tree, function.split(":")[1])
    found = [node for node in bound if isinstance(node, ast.FunctionDef)]
    return bool(found) and ast.unparse(found[-1].body[-1]).startswith(
        "raise NotImplementedError('exercise"
    )


def label(number: int) -> str:
    return f"{number:>2}" if number < CAPSTONE else " *"

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
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from grafting import Call, UnusableFile, graft, parse
from script_loader import load_script
from telling import cut, told_call, told_text

EXERCISES = load_script("exercises").EXERCISES
CAPSTONE = len(EXERCISES) + 1
TITLES = {one.number: one.title for one in EXERCISES} | {CAPSTONE: "all of it together"}
N_SHOWN = 2  # failures of one exercise that are shown in full
N_LINES = 10  # of what an error says
EXAMPLE = re.compile("(Falsifying example|Failing test case): ")  # hypothesis' words


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
        self.folder, self.config = folder.resolve(), config
        self.calls: dict[str, Call] = {}
        self.outcomes: dict[int, list[str]] = {}
        self.stories: dict[int, list[str]] = {}
        config.option.tbstyle = "no"  # this plugin tells of failures itself
        config.option.reportchars = ""
        if not config.getoption("--hypothesis-profile"):
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
        if number < CAPSTONE and self.is_untouched(number):
            raise NotImplementedError(f"exercise {number}: {TITLES[number]}")

    @functools.cache
    def is_untouched(self, number: int) -> bool:
        """Whether every function of the exercise is a stub still."""
        try:
            return all(
                is_stub_in(parse(self.folder / function.split(":")[0]), function)
                for function in EXERCISES[number - 1].functions
            )
        except UnusableFile:
            return False

    # --------------------------------------------------------------- what became of it

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[Any]:
        report = yield
        number = exercise_of(item)
        if report.failed and call.excinfo is not None:
            error = call.excinfo.value
            started = not is_stub(error)
            self.outcomes.setdefault(number, []).append("failed" if started else "stub")
            if started:
                story = self.story(item, error)
                self.stories.setdefault(number, []).append(story)
        elif report.passed and report.when == "call":
            self.outcomes.setdefault(number, []).append("passed")
        self.calls.clear()
        return report

    def story(self, item: pytest.Item, error: BaseException) -> str:
        """What went in, what came out, and what broke: for the learner."""
        if isinstance(error, UnusableFile):
            return str(error)
        name = item.name.split("[")[0]
        law = item.obj.__doc__ if getattr(item, "obj", None) else None  # type: ignore
        lines = [name.removeprefix("test_").replace("_", " ")]
        lines += [f"  {line.strip()}" for line in (law or "").strip().splitlines()]
        lines += section("what went in", went_in(item, error))
        told = [line for call in self.calls.values() for line in told_call(call)]
        lines += section("your last call", told)
        lines += section("what broke", told_text(error, N_LINES))
        lines += section("where", self.places(item, error))
        return "\n".join(lines)

    def places(self, item: pytest.Item, error: BaseException) -> list[str]:
        """The learner's line, if the error came from there, and the test's."""
        frames = traceback.extract_tb(error.__traceback__)
        places = []
        for kind, folder in (("yours", self.folder), ("test", item.path)):
            for frame in reversed(frames):
                if Path(frame.filename).is_relative_to(folder):
                    name = Path(frame.filename).name
                    places.append(f"{kind}: {name}:{frame.lineno}: {frame.line}")
                    break
        return places

    # ------------------------------------------------------------------------- the end

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        write = terminalreporter.write_line
        for number, stories in sorted(self.stories.items()):
            terminalreporter.section(f"{label(number)} {TITLES[number]}")
            for story in dict.fromkeys(stories[:N_SHOWN]):
                write(story)
                write("")
            if len(stories) > N_SHOWN:
                write(f"... and {len(stories) - N_SHOWN} more failures of this kind")
        terminalreporter.section("exercises")
        write(f"{'exercise':<46}{'passed':>7}{'failed':>7}  what to do next")
        for number, outcomes in sorted(self.outcomes.items()):
            write(self.row(number, outcomes))

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
                return "finish the exercises above"
            return "read what broke, above" if "failed" in outcomes else "all is exact"
        one = EXERCISES[number - 1]
        if "failed" in outcomes:
            return f"read what broke, above; start_exercises.py --hint {number}"
        if "stub" in outcomes:
            return f"not written: start_exercises.py --show {number}"
        return f"done; read {one.read_next}"


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
    *place, name = function.split(":")[1].split(".")
    body: list[Any] = list(tree.body)
    if place:
        body = [m for c in body if getattr(c, "name", "") == place[0] for m in c.body]
    found = [node for node in body if getattr(node, "name", "") == name]
    return bool(found) and ast.unparse(found[-1].body[-1]).startswith(
        "raise NotImplementedError('exercise"
    )


def label(number: int) -> str:
    return f"{number:>2}" if number < CAPSTONE else " *"


def section(title: str, lines: list[str]) -> list[str]:
    """Indented lines under a title, if there are any."""
    return [f"  {title}:", *(f"    {line}" for line in lines)] if lines else []


def went_in(item: Any, error: BaseException) -> list[str]:
    """The example that hypothesis found, or the test's parameters."""
    lines = [
        line.strip()
        for note in getattr(error, "__notes__", [])
        for line in note.splitlines()
    ]
    if any(EXAMPLE.match(line) for line in lines):
        shown = [
            line.rstrip(",")
            for line in lines
            if line not in ("", ")") and not EXAMPLE.match(line)
        ]
    else:
        callspec = getattr(item, "callspec", None)
        params = callspec.params.items() if callspec else ()
        shown = [f"{name}={value!r}" for name, value in params]
    noise = ("impl=", "data=data", "#")
    useful = [line for line in shown if not line.startswith(noise)]
    return [cut(line) for line in useful[:N_LINES]]

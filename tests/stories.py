"""What is told of one failed test: what went in, what came out, and what broke.

All of it is read from the frames that the error came through, from what hypothesis
noted on it, and from the recorded calls of the learner's functions.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import operator
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple

from grafting import PACKAGE, UnusableFile
from telling import Calls, cut, told_call, told_text, told_value

N_LINES = 10  # of what went in, and of what an error says
N_CALLS = 4  # the last ones
N_PRINTED = 5  # the last lines
EXAMPLE = re.compile("(Falsifying example|Failing test case): ")  # hypothesis' words
NOISE = re.compile(r"impl=|data=data|#|state\.teardown|state\.holds|\w+ = Machine")


class Story(NamedTuple):
    """A failure in words; `about` is the graded function called last."""

    text: str
    title: str = ""
    about: str = ""


class Failure(NamedTuple):
    """A failed test, and where things are."""

    item: Any
    error: BaseException
    calls: Calls
    folder: Path  # the learner's
    files: dict[str, str]  # {graded function: its file}

    def frames(self) -> list[tuple[FrameType, int]]:
        """Frames and lines from the test's inwards."""
        return list(traceback.walk_tb(self.error.__traceback__))

    def innermost(self, folder: Path) -> tuple[FrameType, int] | None:
        """The last frame of that folder or file."""
        for frame, line in reversed(self.frames()):
            if Path(frame.f_code.co_filename).is_relative_to(folder):
                return frame, line
        return None


def story(failure: Failure, printed: str) -> Story:
    """Title, the test's own words, and the sections that have something to tell."""
    item, error, calls = failure.item, failure.error, failure.calls
    if isinstance(error, UnusableFile):
        return Story(str(error))
    law = item.obj.__doc__ if getattr(item, "obj", None) else None
    lines = [title(item.name)]
    lines += [f"  {line.strip()}" for line in (law or "").strip().splitlines()]
    lines += section("what went in", went_in(failure))
    what = "your last call" if len(calls) < 2 else "your last calls, the latest last"
    lines += section(what, told_calls(failure))
    lines += section("what you printed", printed.splitlines()[-N_PRINTED:])
    lines += section("what broke", told_text(error, N_LINES))
    lines += section("where", places(failure))
    return Story("\n".join(lines), lines[0], next(reversed(calls), ""))


def title(name: str) -> str:
    """The test's name as a sentence."""
    words = name.split("[")[0].removeprefix("test_").replace("_", " ")
    return re.sub(r"(\w)s own\b", r"\1's own", words)


def section(heading: str, lines: list[str]) -> list[str]:
    """Indented lines under a heading, if there are any."""
    return [f"  {heading}:", *(f"    {line}" for line in lines)] if lines else []


# ------------------------------------------------------------------------ what went in


def went_in(failure: Failure) -> list[str]:
    """The test's arguments, then what hypothesis drew or did besides."""
    code = failure.item.obj
    code = getattr(getattr(code, "hypothesis", None), "inner_test", code)
    code = getattr(inspect.unwrap(code), "__code__", None)
    found = [frame for frame, _ in failure.frames() if frame.f_code is code]
    values = found[0].f_locals if found else {}
    names = code.co_varnames[: code.co_argcount] if code and found else ()
    shown = [
        f"{name}={told_value(values[name])}"
        for name in names
        if name in values and name not in ("impl", "data", "self")
    ]
    for line in noted(failure.error):
        if drawn := re.match(r"Draw \d+(?: \(.*\))?: (.*)", line):
            line = f"{name_of(drawn[1], values, names)}={drawn[1]}"
        elif re.match(r"\w+=", line) or NOISE.match(line):
            continue
        shown.append(re.sub(r"data=data\(\.\.\.\)", "...", line))
    return [cut(line) for line in shown[:N_LINES]]


def noted(error: BaseException) -> Iterator[str]:
    """The lines of hypothesis' notes, without the frame around them."""
    notes = getattr(error, "__notes__", [])
    if not any(EXAMPLE.match(line) for note in notes for line in note.splitlines()):
        return
    for note in notes:
        for line in note.splitlines():
            if line.strip() not in ("", ")") and not EXAMPLE.match(line):
                if not line.startswith("  " * 4):  # a value that goes on
                    yield line.strip().rstrip(",")


def name_of(drawn: str, values: dict[str, Any], arguments: tuple[str, ...]) -> str:
    """What the test calls the value that was drawn."""
    names = [
        name
        for name, value in values.items()
        if name not in arguments and repr(value) == drawn
    ]
    return names[0] if len(names) == 1 else "drawn"


def told_calls(failure: Failure) -> list[str]:
    """The last calls of graded functions, by the names of their parameters."""
    calls = failure.calls
    return [
        line
        for name, call in list(calls.items())[-N_CALLS:]
        for line in told_call(call, calls.given.get(name), parameters(failure, name))
    ]


def parameters(failure: Failure, name: str) -> list[str]:
    """Of a graded function, in the reference."""
    module = failure.files[name].removesuffix(".py").replace("/", ".")
    reference = importlib.import_module(f"{PACKAGE}.{module}")
    return list(inspect.signature(operator.attrgetter(name)(reference)).parameters)


# --------------------------------------------------------------------- where it broke


def places(failure: Failure) -> list[str]:
    """The learner's line, if the error came from there; the test's, with its values."""
    lines = []
    if yours := failure.innermost(failure.folder):
        frame, number = yours
        path = Path(frame.f_code.co_filename)
        text = path.read_text(encoding="utf-8-sig").splitlines()
        lines.append(cut(f"yours: {path.name}:{number}: {text[number - 1].strip()}"))
    if test := failure.innermost(failure.item.path):
        frame, number = test
        code, names = statement(failure.item.path, number)
        lines.append(cut(f"test: {failure.item.path.name}:{number}: {code}"))
        lines += [f"      {name} = {told}" for name, told in values_of(frame, names)]
    return lines


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def statement(path: Path, number: int) -> tuple[str, list[str]]:
    """The statement at that line of a test, and the names in it, in order."""
    around = [
        node
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.stmt)
        and node.lineno <= number <= (node.end_lineno or number)
    ]
    innermost = max(around, key=lambda node: (node.lineno, -(node.end_lineno or 0)))
    code = ast.unparse(innermost).splitlines()[0]  # of a block, its head
    heads = [
        node
        for node in ast.walk(innermost)
        if isinstance(node, ast.Name) and re.search(rf"\b{node.id}\b", code)
    ]
    heads.sort(key=lambda node: (node.lineno, node.col_offset))
    return code, list(dict.fromkeys(node.id for node in heads))


def values_of(frame: FrameType, names: list[str]) -> Iterator[tuple[str, str]]:
    """What can be told in a line."""
    for name in names:
        value = frame.f_locals.get(name)
        if value is None or callable(value) or isinstance(value, ModuleType):
            continue
        told = told_value(value)
        if name not in ("impl", "self") and "<" not in told:
            yield name, told

"""What a learner is told of a failure: what broke, what went in, and the own line."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from hypothesis.errors import Flaky

N_LINES, WIDTH = 16, 200
# What a test's own arguments tell nobody who did not write it
PRIVATE = re.compile(r"^\s*(data|monkeypatch|capsys|tmp_path|call)=")


def described(error: BaseException) -> list[str]:
    """What an error says, in few lines; its type unless it is an assertion."""
    if isinstance(error, Flaky):
        return [
            "the same arguments gave two different results: draw only through the "
            "randomness that is given, and remember nothing from call to call"
        ]
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, AssertionError):
        own = re.compile(r" *(\+  where |assert )")  # pytest's, of a bare assert
        lines = [line for line in lines if not own.match(line)]
    else:
        lines = [f"{type(error).__name__}: {(lines or [''])[0]}", *lines[1:]]
    more = ["..."] if len(lines) > N_LINES else []
    return lines[:N_LINES] + more or ["what the test says, above, does not hold"]


def inputs(error: BaseException) -> list[str]:
    """What went in, from hypothesis' notes, unless the error says so itself."""
    if any(line.strip().startswith("expected: ") for line in str(error).splitlines()):
        return []
    notes = "\n".join(getattr(error, "__notes__", []))
    notes = re.sub(r"^Draw \d+ \((.+?)\): ", r"\1=", notes, flags=re.MULTILINE)
    lines = notes.splitlines()
    told = [line for line in lines if "=" in line or line.startswith("Draw ")]
    return [line for line in told if not PRIVATE.match(line)][:N_LINES]


def told(doc: str | None, lines: list[str], where: str) -> str:
    """A failure: what the test says, what broke and went in, and the own line."""
    says = [line.strip() for line in (doc or "").strip().splitlines()]
    own = [f"yours: {where}"] if where else []
    return "\n".join(f"  {line:.{WIDTH}}" for line in [*says, *lines, *own])


def learners_line(folder: Path, error: BaseException) -> str:
    """The learner's line that the error came through last, if there is one."""
    frame = learners_frame(folder, error)
    if frame is None:
        return ""
    file = Path(frame.filename).relative_to(folder)
    return f"{file}:{frame.lineno}: {frame.line}"


def learners_frame(
    folder: Path, error: BaseException
) -> traceback.FrameSummary | None:
    """The learner's call that the error came through last, if there is one."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    own = (one for one in frames if Path(one.filename).is_relative_to(folder))
    return next(own, None)


def run_failure(folder: Path, error: Exception) -> str:
    """One sentence on an error of a command that ran on the learner's code."""
    what, own = described(error)[0], learners_frame(folder, error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    if own is not None:
        where = "" if own == last else "something called in "
        return f"{what}, in {where}your {own.name}, {learners_line(folder, error)}"
    return (
        f"{what}, in the package's own {last.name}: something that one of your "
        "functions gave it is wrong, and `exercises.py check` shows which"
    )


def line_in(folder: Path, trace: str) -> str:
    """The same, from what the watchdog wrote down: the latest call comes first."""
    for name, number in re.findall(r'File "(.+)", line (\d+)', trace):
        if Path(name).is_relative_to(folder):
            lines = Path(name).read_text(encoding="utf-8-sig").split("\n")
            file, line = Path(name).relative_to(folder), lines[int(number) - 1].strip()
            return f"{file}:{number}: {line}"
    return ""

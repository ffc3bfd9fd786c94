"""The grader, graded: right is done, wrong is told, and nothing keeps it from ending.

What it says of single exercises is in test_answers.py.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path
from types import ModuleType

import pytest

import minispec  # noqa: F401

from course import learners, overlay
from course.catalogue import EXERCISES
from course.learners import with_functions
from course.overlay import PACKAGE, ROOT, Unusable
from course.stubs import stub


def grade(folder: Path, *options: str) -> tuple[int, str]:
    """The exit status of `pytest --impl`, and what it says."""
    command = [sys.executable, "-m", "pytest", f"--impl={folder}", *options]
    command += ["-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exercises")
    for file in {file for one in EXERCISES.values() for file in one.files}:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(stub(file), encoding="utf-8")
    return folder


@pytest.fixture
def mine(stubs: Path, tmp_path: Path) -> Path:
    """A learner's folder, in which nothing is written yet."""
    return shutil.copytree(stubs, tmp_path / "mine")


def write(mine: Path, file: str, code: str) -> None:
    """As at the end of a learner's file: the last definition of a name counts."""
    with (mine / file).open("a", encoding="utf-8") as opened:
        opened.write(f"\n\n{code}\n")


# ----------------------------------------------------------------- right, and not yet


@pytest.mark.slow
def test_the_package_itself_solves_everything() -> None:
    status, said = grade(PACKAGE)
    assert status == 0 and said.count(": done, ") == len(EXERCISES), said


RIGHT_RESIDUAL = """
import torch as t

def residual(target_row, draft_row):
    excess = positive(target_row - draft_row)
    return excess / excess.sum() if excess.sum() > 0 else target_row

def positive(row):
    return t.where(row > 0, row, 0.0)
"""


def test_what_is_not_written_is_never_done(mine: Path) -> None:
    write(mine, "core/rejection.py", RIGHT_RESIDUAL)
    status, said = grade(mine)
    assert status != 0 and said.count("not written yet: ") == len(EXERCISES), said
    assert re.search(r"[1-9]\d* passed; not written yet: \S+:reject\n", said)
    assert "done" not in said and "Traceback" not in said


# ------------------------------------------------------- what is wrong, and what ends

CALLED = """
n_calls = []

def residual(target_row, draft_row):
    n_calls.append(1)
    return target_row.roll(len(n_calls))
"""
SLEEPING = """
def copy_continuation(prefix, gamma, longest, shortest):
    import time
    while True:
        time.sleep(1)
"""
SLIP = "def expected_tokens(alpha, gamma):\n    return alpha * nothing"


def test_what_is_not_repeatable_or_sleeps_or_fails_ends_with_a_sentence(
    mine: Path,
) -> None:
    write(mine, "core/rejection.py", CALLED)
    write(mine, "drafters/ngram.py", SLEEPING)
    write(mine, "core/analysis.py", SLIP)
    chosen = "exercise8 or exercise12 or exercise13"
    status, said = grade(mine, "-m", chosen, "--seconds=2")
    assert status != 0 and "INTERNALERROR" not in said and len(said.splitlines()) < 80
    assert "two different results" in said or "got: " in said
    assert "no end after 2 s" in said and "NameError: name 'nothing'" in said, said
    line = len((mine / "core/analysis.py").read_text().splitlines())
    assert f"yours: core/analysis.py:{line}: return alpha * nothing" in said


def test_a_file_that_does_not_run_is_named(mine: Path) -> None:
    write(mine, "core/rejection.py", RIGHT_RESIDUAL + "while True: pass")
    status, said = grade(mine, "-m", "exercise8", "--seconds=3")
    assert status != 0 and len(said.splitlines()) == 2, said
    assert re.search(r"does not run: core/rejection.py:\d+: .* no end after 3 s", said)


STUBBORN = """
def residual(target_row, draft_row):
    import time
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
"""
IN_C = "residual = lambda *rows: sum(iter(int, 1))"
QUITS = "def residual(target_row, draft_row):\n    import os; os._exit(0)"
CRASHES = """
def residual(target_row, draft_row):
    import os; os.abort()
"""
GREEDY = "def residual(target_row, draft_row):\n    return bytearray(1 << 40)"


@pytest.mark.parametrize(
    "code, sentence",
    [
        (STUBBORN, r"no end after 2 s.*\n  yours: core/rejection.py:\d+: time.sleep"),
        (IN_C, r"no end after 2 s.*\n  yours: core/rejection.py:\d+: residual = "),
        (QUITS, r"the code ended Python \(status 0\)"),
        (CRASHES, r"the code crashed Python \(SIGABRT\)"),
        (GREEDY, r"MemoryError"),
    ],
)
def test_what_nothing_in_python_can_catch_ends_too(
    mine: Path, code: str, sentence: str
) -> None:
    write(mine, "core/rejection.py", RIGHT_RESIDUAL)
    write(mine, "core/rejection.py", code)
    status, said = grade(mine, "-m", "exercise8", "--seconds=2")
    assert status == 1 and re.search(sentence, said), said
    assert "exercise 8, Rejection and the residual: read what broke" in said
    assert ".hypothesis" not in said


@pytest.mark.parametrize("code", ["import os; os._exit(0)", "while True: pass"])
def test_an_import_that_does_not_come_back_is_named(mine: Path, code: str) -> None:
    write(mine, "core/rejection.py", f"{RIGHT_RESIDUAL}\n{code}")
    status, said = grade(mine, "-m", "exercise8", "--seconds=3")
    assert status == 4 and "ERROR: does not run: core/rejection.py" in said, said


def test_seconds_are_above_0(mine: Path) -> None:
    status, said = grade(mine, "--seconds=-3")
    assert status == 4 and "--seconds must be above 0, got -3.0" in said


# ---------------------------------------------------------------- files, read without


@pytest.mark.parametrize(
    "code, sentence",
    [
        (b"def residual(:", r"rejection.py, line 1: invalid syntax"),
        (b"# caf\xe9", r"rejection.py is not UTF-8 \(byte 6\)"),
        (b"def residue(): pass", "rejection.py has no function residual"),
        (b"class residual: pass", "residual is a class and should be a function"),
        (b"x = 1\0", r"rejection.py(, line \d+)?: .*null byte"),
        (b"residual = " + b"-" * 200_000 + b"1", r"rejection.py.*: .+"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, code: bytes, sentence: str
) -> None:
    (tmp_path / "rejection.py").write_bytes(code)
    with pytest.raises(Unusable, match=sentence) as error:
        learners.is_written(tmp_path, "rejection.py:residual")
    assert "None" not in str(error.value) and len(str(error.value)) < 300


@pytest.mark.parametrize(
    "file, code",
    [
        ("model/kv_cache.py", "class KVCache:\n    append = None"),
        ("drafters/ngram.py", "copy_continuation = None"),
        ("drafters/ngram.py", "copy_continuation = type('x', (), {})"),
    ],
)
def test_what_is_no_function_is_never_done(mine: Path, file: str, code: str) -> None:
    write(mine, file, code)
    status, said = grade(mine, "-m", "exercise3 or exercise13")
    assert status == 4 and "should be a function, got " in said, said


# ------------------------------------------------------ what is borrowed, what is lost

BORROWED = """
from minispec.core.rejection import residual as theirs
def residual(target_row, draft_row):
    return theirs(target_row, draft_row)
"""


def test_the_packages_own_function_cannot_be_borrowed(mine: Path) -> None:
    write(mine, "core/rejection.py", BORROWED)
    status, said = grade(mine, "-m", "exercise8")
    assert status == 4 and "it imports residual from minispec, which is what" in said
    module = "__import__('sys').modules['minispec.core.rejection']"
    for lent in ("residual", f"{module}.residual"):
        (mine / "core/rejection.py").write_text(f"residual = {lent}\nreject = residual")
        status, said = grade(mine, "-m", "exercise8")
        assert status == 4 and "does not run: core/rejection.py:1: " in said, said


def test_what_is_changed_and_not_graded_is_a_warning(mine: Path) -> None:
    assert "warning" not in grade(mine, "-m", "exercise1")[1]
    write(mine, "core/sampling.py", "def truncate(probs, sampling): return probs")
    (mine / "helpers.py").write_text("import torch")
    said = grade(mine, "-m", "exercise1")[1]
    assert "warning: core/sampling.py: truncate is not asked for; the package" in said
    assert "warning: helpers.py belongs to no exercise and is not used" in said


def test_verdicts_and_messages_are_told_to_programs(mine: Path, tmp_path: Path) -> None:
    """As JSON, of all exercises graded so far; and as JUnit's XML."""
    shutil.copy(PACKAGE / "model/kv_cache.py", mine / "model/kv_cache.py")
    write(mine, "core/rejection.py", "def residual(t, d):\n    return t - d")
    junit, grades = tmp_path / "junit.xml", tmp_path / "grades.json"
    grade(mine, "-m", "exercise3", f"--grades={grades}")
    grade(mine, "-m", "exercise8", f"--grades={grades}", f"--junitxml={junit}")
    found = json.loads(grades.read_text())
    assert [(n, one["points"], one["of"]) for n, one in found.items()] == [
        ("3", 1, 1), ("8", 0, 2),
    ]
    told = "is not the target's row"
    assert told in found["8"]["message"] and "expected: " in found["8"]["message"]
    (failure, *_) = xml.parse(junit).getroot().iter("failure")
    assert told in str(failure.text)


# ------------------------------------------------------------------------ the overlay


def test_only_what_is_asked_is_the_learners(mine: Path) -> None:
    write(mine, "core/rejection.py", RIGHT_RESIDUAL + "def acceptance_ratios(): pass")
    (text,) = with_functions(mine, ["core/rejection.py:residual"]).values()
    module = ModuleType("overlaid")
    sys.modules["overlaid"] = module  # dataclasses look their module up there
    exec(compile(text, "the package's", "exec"), vars(module))
    learners = str(mine / "core/rejection.py")
    for name in ("residual", "positive", "reject", "acceptance_ratios"):
        is_learners = name in ("residual", "positive")
        source = vars(module)[name].__code__.co_filename
        assert source == (learners if is_learners else "the package's")


MEMBERS = """
class Written:
    def _put(self, rows, new):
        rows[:, :, self.length : self.length + new.shape[2]] = new
        return rows[:, :, : self.length + new.shape[2]]

class KVCache(Written):
    ROOM = "no room"

    class Full(ValueError):
        pass

    def __fits(self, n):
        return self.length + n <= self.capacity

    def append(self, layer, key, value):
        if not self.__fits(key.shape[2]):
            raise self.Full(self.ROOM)
        put = self._put
        return put(self.keys[layer], key), put(self.values[layer], value)

    advance = lambda self, n_new: setattr(self, "length", self.length + n_new)
"""


def test_whatever_a_learners_class_has_comes_along(mine: Path) -> None:
    """A base, a constant, a nested class, a private helper, a lambda."""
    (mine / "model/kv_cache.py").write_text(MEMBERS)
    status, said = grade(mine, "-m", "exercise3")
    assert status == 0 and "Appending to the cache: done, " in said, said


def test_the_package_must_not_be_imported_before() -> None:
    assert "minispec" in sys.modules
    with pytest.raises(Unusable, match="imported before"):
        overlay.put_in_front({})

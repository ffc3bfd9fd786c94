"""The grader, graded: right solutions pass, wrong ones are told what broke."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType

import pytest

import minispec  # noqa: F401

from course import overlay
from course.catalogue import EXERCISES
from course.overlay import PACKAGE, ROOT, Unusable, with_functions
from support.script_loader import load_script, run_script

SCRIPT = load_script("exercises")


def grade(folder: Path, *options: str) -> tuple[int, str]:
    """The exit status of `pytest --impl`, and what it says."""
    command = [sys.executable, "-m", "pytest", f"--impl={folder}", *options]
    command += ["-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exercises") / "stubs"
    assert "14 files written" in SCRIPT.start(folder)
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


# ------------------------------------------------------------------------------ wrong

WRONG = {
    "core/rejection.py": """
def residual(target_row, draft_row):
    return (target_row - draft_row).softmax(dim=-1)
""",
    "core/analysis.py": """
def expected_tokens(alpha, gamma):
    return sum(alpha**i for i in range(gamma))

best_gamma = lambda alpha, cost_ratio, verify_cost=None, longest=64: 1
""",
    "drafters/ngram.py": """
def copy_continuation(prefix, gamma, longest, shortest):
    for n in range(min(longest, len(prefix) - 1), shortest - 1, -1):
        for start in range(len(prefix) - n):
            if prefix[start : start + n].equal(prefix[-n:]):
                return prefix[start + n : start + n + gamma]
    return prefix[:0]
""",
}


def test_right_is_done_and_wrong_is_shown_by_input_got_and_expected(
    mine: Path,
) -> None:
    """Three ordinary mistakes, and the package's own file as a right solution."""
    shutil.copy(PACKAGE / "model/kv_cache.py", mine / "model/kv_cache.py")
    for file, code in WRONG.items():
        write(mine, file, code)
    numbers = (3, 8, 12, 13)
    chosen = " or ".join(f"exercise{number}" for number in numbers)
    status, said = grade(mine, "-m", chosen)
    assert status != 0 and "Traceback" not in said and len(said.splitlines()) < 80
    assert re.search(r"exercise 3, .*: done, [1-9]\d* passed", said), said
    assert "of a file after its first failure" in said
    for words in ("got: ", "expected: ", "read what broke"):
        assert said.count(words) >= 3, said


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


@pytest.mark.parametrize(
    "code, sentence",
    [
        (b"def residual(:", r"rejection.py, line 1: invalid syntax"),
        (b"# caf\xe9", r"rejection.py is not UTF-8 \(byte 6\)"),
        (b"def residue(): pass", "rejection.py has no function residual"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, code: bytes, sentence: str
) -> None:
    (tmp_path / "rejection.py").write_bytes(code)
    with pytest.raises(Unusable, match=sentence):
        overlay.is_written(tmp_path, "rejection.py:residual")


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


def test_the_package_must_not_be_imported_before() -> None:
    assert "minispec" in sys.modules
    with pytest.raises(Unusable, match="imported before"):
        overlay.put_in_front({})


# ------------------------------------------------------------------------- the script


def test_stubs_are_the_package_without_the_graded_bodies(stubs: Path) -> None:
    functions = [f for one in EXERCISES.values() for f in one.functions]
    assert len(EXERCISES) == 13
    for file in {function.split(":")[0] for function in functions}:
        names = [f.split(":")[1] for f in functions if f.startswith(f"{file}:")]
        (stub, its), (whole, all_) = map(overlay.parsed, (stubs / file, PACKAGE / file))
        assert {*names} <= {*overlay.definitions(its)} == {*overlay.definitions(all_)}
        new = {*stub.splitlines()} - {*whole.splitlines()}
        assert len(new) == len(names) and all("NotImpl" in line for line in new)


def test_work_that_is_there_stays(mine: Path) -> None:
    (mine / "core/verify.py").write_text("# a night's work\n")
    (mine / "core/draft.py").unlink()
    assert "1 file written" in SCRIPT.start(mine)
    assert (mine / "core/verify.py").read_text() == "# a night's work\n"


def test_every_exercise_is_described() -> None:
    for one in EXERCISES.values():
        assert len(one.hints) == 2 and "Contract: " in one.asks
        assert max(map(len, one.asks.splitlines())) <= 84
    hint = Namespace(command="hint", number=8, which=2)
    assert SCRIPT.answer(hint) == EXERCISES[8].hints[1]
    with pytest.raises(ValueError, match="exercises are 1 to 13, got 99"):
        SCRIPT.answer(Namespace(command="show", number=99))


def test_a_command_runs_on_the_learners_code(mine: Path) -> None:
    write(mine, "core/analysis.py", "def expected_tokens(alpha, gamma): return 42.0")
    plan = ("plan", "--alpha", "0.8", "--cost", "0.1")
    for command in (("--", *plan), plan):
        done = run_script("exercises", "run", mine, *command)
        assert "yours: expected_tokens" in done.stderr and "42.0" in done.stdout, done
    done = run_script("exercises", "run", "none", *plan)
    says = "none: no such folder; exercises.py start none makes it\n"
    assert done.stderr.endswith(says) and done.returncode == 2

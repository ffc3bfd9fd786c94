"""The grader, graded: the reference passes, stubs fail, mistakes are told kindly."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minispec import rejection as reference
from minispec.sampling import Sampling

from grading import CAPSTONE, EXERCISES, chosen
from grafting import Call, UnusableFile, graft
from patience import Endless, fresh_calls, patience
from script_loader import SCRIPTS
from stories import Story
from telling import Calls, told_value

ROOT = SCRIPTS.parent
NUMBERS = range(1, CAPSTONE)
# Enough to see that a graded function is reached: the tests themselves are elsewhere.
SAMPLE = (3, 8, 13)


def start(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPTS / "start_exercises.py", *map(str, arguments)],
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exercises") / "stubs"
    assert start(folder).returncode == 0
    return folder


def grade(
    folder: Path, *options: str, environment: Mapping[str, str] = os.environ
) -> tuple[str, dict[int, tuple[int, int]]]:
    """What `pytest --impl` says, and its table: {exercise: (passed, failed)}."""
    plain = ["-p", "no:cacheprovider", "-p", "_hypothesis_pytestplugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", f"--impl={folder}", *plain, *options],
        cwd=ROOT,
        env=without_pytest(environment) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    rows = re.findall(r"^ ?([\d*]+) .*? {2,}(\d+) +(\d+)  ", done.stdout, re.MULTILINE)
    table = {
        CAPSTONE if number == "*" else int(number): (int(passed), int(failed))
        for number, passed, failed in rows
    }
    assert table, done.stdout + done.stderr
    return done.stdout, table


def without_pytest(environment: Mapping[str, str]) -> dict[str, str]:
    """What is asked of this session is not asked of those inside it."""
    return {k: v for k, v in environment.items() if not k.startswith("PYTEST_")}


@pytest.fixture
def mine(stubs: Path, tmp_path: Path) -> Path:
    """A learner's folder, in which nothing is written yet."""
    return shutil.copytree(stubs, tmp_path / "mine")


def add(path: Path, code: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(code)


def only(numbers: object) -> str:
    return " or ".join(f"exercise{number}" for number in numbers)  # type: ignore


# --------------------------------------------------------------------- the whole pass


def test_the_reference_passes_a_sample(tmp_path: Path) -> None:
    copy = shutil.copytree(ROOT / "minispec", tmp_path / "copy")
    glance = "--hypothesis-profile=glance"
    _, table = grade(copy, glance, "-m", only(SAMPLE))
    assert sorted(table) == sorted(SAMPLE)
    assert all(passed and not failed for passed, failed in table.values())


@pytest.mark.slow
def test_the_reference_passes_everything(tmp_path: Path) -> None:
    copy = shutil.copytree(ROOT / "minispec", tmp_path / "copy")
    _, table = grade(copy)
    assert sorted(table) == [*NUMBERS, CAPSTONE]
    assert all(passed and not failed for passed, failed in table.values())


def without_names(folder: Path, to: Path) -> Path:
    """The same stubs, but no longer recognised as such: every test really runs."""
    copy = shutil.copytree(folder, to)
    for path in copy.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        text = text.replace("raise NotImplementedError(", "raise ArithmeticError(")
        path.write_text(text, encoding="utf-8")
    return copy


def test_untouched_stubs_fail_every_exercise(stubs: Path) -> None:
    told, table = grade(stubs)
    assert sorted(table) == [*NUMBERS, CAPSTONE]
    assert all(failed and not passed for passed, failed in table.values())
    assert told.count("to be written: ") == len(EXERCISES)
    assert "Traceback" not in told and len(told.splitlines()) < 40


@pytest.mark.slow
def test_a_function_that_only_raises_fails_its_exercise(
    stubs: Path, tmp_path: Path
) -> None:
    """By its own tests: every exercise, each graded alone."""
    raising = without_names(stubs, tmp_path / "raising")
    _, table = grade(raising, "--hypothesis-profile=glance")
    assert all(table[number][1] for number in [*NUMBERS, CAPSTONE])


# ----------------------------------------------------------------- what a learner sees

WRONG_RESIDUAL = '''
LOWEST, AXIS = 0, None
try:
    AXIS = -1
finally:
    pass


def residual(target_row, draft_row):
    return softened(target_row - draft_row)


def softened(difference):
    return difference.clamp(min=LOWEST).softmax(dim=AXIS)
'''


def test_a_mistake_is_told_in_the_learners_terms(mine: Path) -> None:
    """Exercise 8 with helpers of one's own, while 7 in the same file is a stub."""
    add(mine / "rejection.py", WRONG_RESIDUAL)
    told, table = grade(mine, "-m", "exercise8")
    assert list(table) == [8] and table[8][1] > 0
    for words in ("what went in", "your last call", "what broke", "--hint 8"):
        assert words in told
    went_in = r"residual\(\s*target_row=\[.*\s+draft_row=\[.*\s*"
    assert re.search(rf"{went_in}\) gave \[", told)
    assert "Traceback" not in told and "NotImplementedError" not in told
    assert len(told.splitlines()) < 60


def test_the_same_is_told_on_a_desk_and_in_ci(mine: Path) -> None:
    """pytest itself says more of an assertion where it finds these variables."""
    add(mine / "rejection.py", WRONG_RESIDUAL)
    at_once = ("-m", "exercise8", "--hypothesis-profile=glance")
    desk = {k: v for k, v in os.environ.items() if k not in ("CI", "BUILD_NUMBER")}
    told = [
        re.sub(r" in [\d.]+s", "", grade(mine, *at_once, environment=environment)[0])
        for environment in (desk, desk | {"CI": "true", "BUILD_NUMBER": "7"})
    ]
    assert told[0] == told[1]


def test_verbose_tells_of_every_failure(mine: Path) -> None:
    add(mine / "rejection.py", WRONG_RESIDUAL)
    at_once = ("-m", "exercise8", "--hypothesis-profile=glance")
    told, table = grade(mine, *at_once)
    n_told = told.count("  what broke:\n")
    n_more = re.search(r"and (\d+) more failed: -v tells of all", told)
    assert n_more and n_told + int(n_more[1]) == table[8][1]
    told, table = grade(mine, "-v", *at_once)
    assert told.count("  what broke:\n") == table[8][1] and "more failed" not in told


def test_a_file_that_is_no_python_is_named_with_its_line(mine: Path) -> None:
    (mine / "verify.py").write_text("import torch\n\ndef verify(:\n")
    told, table = grade(mine, "-m", "exercise6")
    assert table[6][1] and "verify.py, line 3: " in told


def test_a_file_of_another_encoding_is_named(mine: Path) -> None:
    """A byte order mark alone is none of the learner's concern."""
    text = (mine / "verify.py").read_bytes()
    (mine / "verify.py").write_bytes(text + b"# caf\xe9\n")
    told, table = grade(mine, "-m", "exercise6")
    assert table[6][1] and f"verify.py is not UTF-8 (byte {len(text) + 6})" in told
    (mine / "verify.py").write_bytes(b"\xef\xbb\xbf" + text)
    told, table = grade(mine, "-m", "exercise6")
    assert table[6][1] and "to be written: verify" in told


MUDDLED = """
def residual(target_row, draft_row):
    print("the rows are", target_row.tolist())
    target_row -= draft_row
    raise ArithmeticError("too hard")
"""


def test_what_is_printed_or_overwritten_is_told(mine: Path) -> None:
    add(mine / "rejection.py", MUDDLED)
    told, _ = grade(mine, "-m", "exercise8", "--hypothesis-profile=glance")
    assert "what you printed:\n    the rows are [" in told
    assert re.search(r"gave an error and changed target_row to \[[-0., ]+\]", told)
    assert re.search(r"yours: rejection.py:\d+: raise ArithmeticError", told)


def test_the_words_of_an_error_are_the_learners_own(mine: Path) -> None:
    rollback = "def rollback(cache, n): cache.length > n and cache.truncate(n)\n"
    add(mine / "rollback.py", rollback)
    text = (mine / "kv_cache.py").read_text()
    text = text.replace(
        'raise NotImplementedError("exercise 9: KVCache.truncate")',
        "if not 0 <= length <= self.length: raise ValueError('no')\n"
        "        self.length = length",
    )
    (mine / "kv_cache.py").write_text(text)
    _, table = grade(mine, "-m", "exercise9", "--hypothesis-profile=glance")
    assert table[9][0] and not table[9][1]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a processor timer")
def test_a_loop_without_end_is_stopped() -> None:
    with pytest.raises(Endless, match="no end after 0.1 s"), patience(0.1):
        end = time.process_time() + 5
        while time.process_time() < end:
            pass


def test_each_example_is_told_by_its_own_calls() -> None:
    calls, seen = Calls(), []

    @settings(max_examples=3, database=None)
    @given(st.integers())
    def example(value: int) -> None:
        seen.append(list(calls))
        calls[f"f{value}"] = Call(f"f{value}", (), {}, (), None)

    class Item:
        obj = example

    with fresh_calls(Item, calls):
        example()
    assert len(seen) == 3 and not any(seen)


def test_values_are_told_in_few_words_but_never_rounded_to_another() -> None:
    assert told_value(torch.tensor([1 - 2**-22, 1 / 3])) == (
        "[0.9999997615814209, 0.333333] (float32 [2])"
    )
    assert told_value((1,)) == "(1,)" and told_value([1, 0.5]) == "[1, 0.5]"
    assert told_value(Sampling(top_p=0.5)) == "Sampling(top_p=0.5)"
    assert told_value({(0, 1): 1 / 3}) == "{(0, 1): 0.333333}"


def test_the_shortest_stories_of_different_tests_are_told() -> None:
    long, short, alike, other = (
        Story("a" * 9, "one", "f"),
        Story("b", "one", "f"),
        Story("cc", "one", "f"),
        Story("d" * 5, "two", "f"),
    )
    assert chosen([long, short, alike, other], 2) == [short, other]


# ------------------------------------------------------------------------ the grafting


def test_a_graft_reaches_its_callers_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "rejection.py").write_text(
        "def residual(t, d): return norm(t)\n\ndef norm(t): return 0 * t + 1\n"
    )
    calls: dict[str, Call] = {}
    copy = graft(tmp_path, {"rejection.py": ["residual"]}, calls)
    assert copy.rejection.residual(torch.zeros(2), torch.zeros(2)).tolist() == [1, 1]
    assert calls["residual"].result.tolist() == [1, 1]
    assert copy.speculative.reject.__globals__ is vars(copy.rejection)
    assert copy.rejection.reject is not reference.reject
    assert sys.modules["minispec.rejection"] is reference
    assert reference.residual.__module__ == "minispec.rejection"
    assert reference.residual(torch.ones(1), torch.ones(1)).tolist() == [1]


@pytest.mark.parametrize(
    "text, said",
    [
        (None, "is missing: python scripts/start_exercises.py"),
        ("x = 1", "has no function residual"),
        ("import nowhere_at_all\ndef residual(t, d): pass", "does not run"),
    ],
)
def test_files_that_cannot_be_graded_say_why(
    tmp_path: Path, text: str | None, said: str
) -> None:
    if text is not None:
        (tmp_path / "rejection.py").write_text(text)
    with pytest.raises(UnusableFile, match=said):
        graft(tmp_path, {"rejection.py": ["residual"]}, {})


# -------------------------------------------------------------------------- the script


def test_stubs_are_the_reference_but_for_the_graded_bodies(stubs: Path) -> None:
    functions = [function for one in EXERCISES for function in one.functions]
    raised = 0
    for path in stubs.rglob("*.py"):
        stub = path.read_text(encoding="utf-8")
        compile(stub, str(path), "exec")
        lines = stub.splitlines()
        whole = (ROOT / "minispec" / path.relative_to(stubs)).read_text("utf-8")
        reference = whole.splitlines()
        added = [line for line in lines if line not in reference]
        assert all("raise NotImplementedError" in line for line in added)
        raised += stub.count("raise NotImplementedError")
        assert reference[0] == lines[0]
    assert raised == len(functions) == len(set(functions))


def test_hints_are_revealed_one_at_a_time(tmp_path: Path) -> None:
    first, second = EXERCISES[7].hints
    said = [start("--hint", 8, tmp_path).stdout.replace("\n", " ") for _ in range(3)]
    assert first in said[0] and second not in said[0]
    assert second in said[1] and first not in said[1]
    assert first in said[2] and second in said[2]


def test_every_exercise_is_described() -> None:
    listed = start("--list").stdout.splitlines()
    assert len(listed) == len(EXERCISES) == 13
    for one in EXERCISES:
        assert all(len(text) > 20 for text in (one.why, one.equation, one.contract))
        assert len(set(one.hints)) == 2 and one.read_next
    shown = start("--show", 8).stdout
    assert "rejection.py:residual" in shown and "norm(max(0, p(x) - q(x)))" in shown


def test_the_advice_names_the_project_to_whoever_is_elsewhere(tmp_path: Path) -> None:
    """pytest knows --impl only there."""
    command = [sys.executable, SCRIPTS / "start_exercises.py", "mine"]
    there = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert f"in {ROOT}" in there.stdout
    assert f"pytest --impl={tmp_path.resolve() / 'mine'} -m exercise1" in there.stdout


def test_hints_come_together_where_they_cannot_be_remembered(tmp_path: Path) -> None:
    (tmp_path / ".hints").mkdir()  # so that no file can be written there
    told = start(tmp_path, "--hint", 8).stdout
    assert told.startswith("Hint 1: ") and "Hint 2: " in told


def test_nothing_of_the_learners_is_overwritten(stubs: Path, mine: Path) -> None:
    (mine / "verify.py").write_text("# a night's work\n")
    assert "stay as they are" in start(mine).stdout
    assert (mine / "verify.py").read_text() == "# a night's work\n"
    (mine / "draft.py").unlink()
    assert "written again: draft.py" in start(mine).stdout
    assert (mine / "verify.py").read_text() == "# a night's work\n"
    assert (mine / "draft.py").read_text() == (stubs / "draft.py").read_text()


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--show", 99], "exercises are 1 to 13, got 99"),
        (["--hint", 8, "nowhere"], "nowhere: no such folder"),
        ([], "give a folder"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: list[object], said: str) -> None:
    done = start(*arguments)
    assert done.returncode == 2 and said in done.stderr


def test_no_line_is_wider_than_a_terminal_and_no_answer_is_recommended() -> None:
    """What to read next must not hold the answer to a later exercise."""
    places = {f"minispec/{f.split(':')[0]}" for one in EXERCISES for f in one.functions}
    for one in EXERCISES:
        shown = start("--show", one.number).stdout
        assert max(map(len, shown.splitlines())) <= 84
        assert not any(place in one.read_next for place in places)
        file, yours, _ = one.read_next.partition(":")[0].partition(" in your folder")
        assert f"minispec/{file}" in places if yours else (ROOT / file).exists()

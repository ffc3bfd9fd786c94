"""The learner's tool and the teacher's: scripts/exercises.py."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from course import learners
from course.catalogue import EXERCISES, FUNCTIONS
from course.overlay import PACKAGE, ROOT
from course.stubs import piece, stub
from support.script_loader import load_script, run_script

SCRIPT = load_script("exercises")
RIGHT = """
def rollback(cache, length):
    cache.truncate(min(length, cache.length))
"""


@pytest.fixture
def remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the tool remembers the folder: not in the project, for a test."""
    path = tmp_path / "remembered"
    monkeypatch.setattr(SCRIPT, "REMEMBERED", path)
    monkeypatch.chdir(tmp_path)
    return path


@pytest.fixture
def says(remembered: Path, capsys: Any) -> Any:
    """Run the tool; what it says, and on standard error if it fails."""

    def tool(*arguments: object) -> str:
        status = SCRIPT.main([*map(str, arguments)])
        said = capsys.readouterr()
        assert status == (2 if said.err else 0), said
        return said.err or said.out

    return tool


# ------------------------------------------------------------------- the descriptions


def test_every_exercise_is_described_and_graded() -> None:
    marked = "".join(p.read_text() for p in (ROOT / "tests").glob("*/test_*.py"))
    for number, one in EXERCISES.items():
        assert len(one.hints) == 2 and "Contract: " in one.asks and 1 <= one.points <= 3
        assert max(map(len, one.asks.splitlines())) <= 84
        assert re.search(rf"mark\.exercise{number}\b", marked)
    assert [*EXERCISES] == [*range(1, len(EXERCISES) + 1)]


def test_exercises_and_notebooks_have_one_order_and_name_each_other() -> None:
    notebooks = [one.notebook for one in EXERCISES.values()]
    assert notebooks == sorted(notebooks)
    for path in (ROOT / "notebooks").glob("[0-9]*.py"):
        text = path.read_text(encoding="utf-8").rpartition("**Exercises**")[2]
        text = text.replace("\n#", "").partition("grades):")[2]
        named = [int(n) for n in re.findall(r"(?<!notebooks )\b(\d+) \(", text)]
        number = int(path.name[:2])
        own = [n for n, one in EXERCISES.items() if one.notebook == number]
        assert named == own, path.name


def test_stubs_are_the_package_without_the_graded_bodies() -> None:
    for file in {file for one in EXERCISES.values() for file in one.files}:
        names = [f.split(":")[1] for f in FUNCTIONS if f.startswith(f"{file}:")]
        whole = (PACKAGE / file).read_text(encoding="utf-8")
        its, all_ = map(learners.ast.parse, (stub(file), whole))
        found = learners.definitions(its)
        assert {*names} <= {*found} == {*learners.definitions(all_)}
        new = {*stub(file).splitlines()} - {*whole.splitlines()}
        assert all("NotImplementedError" in line for line in new)
        assert stub(file).count("is not written: try ") == len(names)


# ------------------------------------------------------------------------ the learner


def test_from_start_to_status(says: Any, tmp_path: Path, remembered: Path) -> None:
    """The folder and what was graded are remembered; work that is there stays."""
    assert "no folder is known: exercises.py start DIR makes one" in says("status")
    mine = tmp_path / "mine"
    (mine / "core").mkdir(parents=True)
    (mine / "core/rollback.py").write_text(RIGHT)
    n_files = len(SCRIPT.FILES)
    assert f"{n_files - 1} files written to {mine}, 1 kept" in says("start", "mine")
    assert (mine / "core/rollback.py").read_text() == RIGHT
    assert says("next").startswith("Exercise 1: ")
    table = says("status")
    assert re.search(r" 9  Rollback .* not graded yet\n", table)
    assert re.search(r" 8  Rejection and the residual .* -\n", table)

    said = says("check", 99)
    assert f"exercises are 1 to {len(EXERCISES)}, got 99" in said
    cache = (PACKAGE / "model/kv_cache.py").read_text()
    (mine / "model/kv_cache.py").write_text(cache)
    done = run_script("exercises", "--dir", mine, "check", 9)
    assert done.returncode == 0 and "exercise 9, Rollback: done, " in done.stdout, done
    assert re.search(r" 9  Rollback .* done\n", says("status"))
    later = time.time() + 9
    os.utime(mine / "core/rollback.py", (later, later))
    assert re.search(r" 9  Rollback .* done \(changed since\)\n", says("status"))

    shown = says("compare", 9)
    assert "# yours, core/rollback.py:" in shown and "cache.truncate(min(" in shown
    assert "# minispec/core/rollback.py:\ndef rollback(" in shown
    assert "def append(" not in shown and "import" not in shown
    said = says("reset", 9)
    assert (mine / "core/rollback.py.old").read_text() == RIGHT
    assert "rollback.py: reset; what you had is in rollback.py.old" in said
    text = (mine / "model/kv_cache.py").read_text()
    assert 'NotImplementedError("exercise 9 is not written: ' in text
    assert "self.length += n_new" in text  # exercise 3 stays
    assert re.search(r" 9  Rollback .* -\n", says("status"))
    assert "rollback.py.old2" in says("reset", 9)  # and the first one stays
    assert (mine / "core/rollback.py.old").read_text() == RIGHT

    assert says("hint", 8).strip().endswith("exercises.py hint 8 2")
    assert says("hint", 8, 2).strip() == EXERCISES[8].hints[1]
    remembered.write_text(f"{tmp_path / 'gone'}")
    assert re.search("gone'?: no such folder; exercises.py start", says("status"))


@pytest.mark.parametrize(
    "change, is_kept",
    [
        (lambda text: f"\f# a page\n# \u2028 and a line\n{text}", True),
        (lambda text: text.replace("    ", "  "), True),
        (lambda text: text.replace("    ", "\t"), True),
        (lambda text: text.replace("def truncate", "def cut"), True),
        (lambda text: text.replace("class KVCache", "class Cache"), False),
        (lambda text: text.replace("def truncate(", "def truncate("[:-1]), False),
    ],
    ids=["lines", "two blanks", "tabs", "renamed", "no class", "no Python"],
)
def test_reset_takes_these_functions_only(
    says: Any, tmp_path: Path, change: Any, is_kept: bool
) -> None:
    """However the file is written; where it cannot be read, all of it."""
    says("start", "mine")
    path = tmp_path / "mine/model/kv_cache.py"
    path.write_text(text := change((PACKAGE / "model/kv_cache.py").read_text()))
    says("reset", 9)
    cache = "model/kv_cache.py:KVCache"
    assert not learners.is_written(tmp_path / "mine", f"{cache}.truncate")
    assert learners.is_written(tmp_path / "mine", f"{cache}.append") == is_kept
    assert path.with_suffix(".py.old").read_text() == text
    learners.with_functions(tmp_path / "mine", [f"{cache}.truncate"])


def test_a_command_runs_on_the_learners_code(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    code = "def expected_tokens(alpha, gamma): return 42.0"
    whole = (PACKAGE / "core/analysis.py").read_text()
    (tmp_path / "core/analysis.py").write_text(
        "\n".join([code, *piece(whole, "best_gamma")])
    )
    plan = ("plan", "--alpha", "0.8", "--cost", "0.1")
    for command in (("--", *plan), plan):
        done = run_script("exercises", "--dir", tmp_path, "run", *command)
        assert "yours: expected_tokens" in done.stderr and "42.0" in done.stdout, done
        assert "exercise 12 has not been checked: this result may" in done.stderr


def test_run_and_status_say_which_exercises_have_not_passed(
    says: Any, tmp_path: Path
) -> None:
    says("start", "mine")
    mine = tmp_path / "mine"
    for file in ("core/rejection.py", "core/rollback.py", "model/kv_cache.py"):
        (mine / file).write_text((PACKAGE / file).read_text())
    written = [f for f in FUNCTIONS if learners.is_written(mine, f)]
    about = {"points": 0, "verdict": "read what broke, above; hint", "at": 9e9}
    done = {"points": 1, "verdict": "done", "at": 9e9}
    verdicts = {"3": done, "7": about, "8": about, "9": {**done, "at": 9}}
    (mine / ".progress.json").write_text(json.dumps(verdicts))
    assert SCRIPT.in_doubt(mine, written) == (
        "exercises 7, 8 have not passed; "
        "exercise 9 has not been checked since the last change"
    )
    assert re.search(r" 8  Rejection .*  failed; `check 8` says why\n", says("status"))
    verdicts = dict.fromkeys("3789", done)
    (mine / ".progress.json").write_text(json.dumps(verdicts))
    assert SCRIPT.in_doubt(mine, written) == ""


WRONG = """
def expected_tokens(alpha, gamma):
    return alpha * nothing
"""
RETURNS_NONE = "def expected_tokens(alpha, gamma): pass"


@pytest.mark.parametrize(
    "code, sentence",
    [
        (WRONG, r"NameError: .*, in your expected_tokens, core/analysis.py:3: return"),
        (RETURNS_NONE, r"TypeError: .*, in the package's own \w+: something that one"),
    ],
)
def test_a_command_that_fails_on_the_learners_code_says_so_in_one_sentence(
    tmp_path: Path, code: str, sentence: str
) -> None:
    (tmp_path / "core").mkdir()
    best = "\n".join(piece(stub("core/analysis.py"), "best_gamma"))
    (tmp_path / "core/analysis.py").write_text(f"{code}\n{best}\n")
    plan = ("--", "plan", "--alpha", "0.8", "--cost", "0.1")
    done = run_script("exercises", "--dir", tmp_path, "run", *plan)
    yours, *said = done.stderr.splitlines()
    assert done.returncode == 2 and len(said) == 1 and "Trace" not in said[0], done
    assert re.search(sentence, said[0]), said
    assert said[0].endswith("exercises.py run --traceback -- " + " ".join(plan[1:]))
    done = run_script("exercises", "--dir", tmp_path, "run", "--traceback", *plan)
    assert "Traceback (most recent call last)" in done.stderr and done.returncode == 1
    plan = ("plan", "--alpha", "7")  # wrong, and not by the learner's code
    done = run_script("exercises", "--dir", tmp_path, "run", *plan)
    assert "your" not in done.stderr.splitlines()[-1], done


@pytest.mark.parametrize("text", ['{"9": {"points": 1, ', "[1]", '{"9": 3}', "\0"])
def test_a_damaged_file_of_verdicts_is_kept_aside(
    says: Any, tmp_path: Path, text: str, capsys: Any
) -> None:
    """One sentence, nothing lost, and then all goes on."""
    says("start", "mine")
    path = tmp_path / "mine/.progress.json"
    path.write_text(text)
    assert SCRIPT.main(["status"]) == 0
    said = capsys.readouterr()
    assert len(said.err.splitlines()) == 1 and "no fault of your code" in said.err
    assert (tmp_path / "mine/.progress.json.damaged1").read_text() == text
    assert re.search(r" 9  Rollback .* -\n", said.out)
    path.write_text(text)
    code = "def copy_continuation(prefix, gamma, longest, shortest): return 3"
    (tmp_path / "mine/drafters/ngram.py").write_text(code)
    done = run_script("exercises", "--dir", tmp_path / "mine", "check", 13)
    assert "is kept as .progress.json.damaged2" in done.stderr
    assert "exercise 13, Prompt lookup: read what broke" in done.stdout, done
    assert json.loads(path.read_text())["13"]["points"] == 0


def test_what_was_not_tried_is_not_compared(says: Any, tmp_path: Path) -> None:
    said = says("compare", 6)
    assert "no folder is known" in said
    says("start", "mine")
    said = says("compare", 6)
    assert "try it first (exercises.py hint 6 helps)" in said and "def" not in said
    assert "def verify(" in says("compare", 6, "--anyway")
    parts = "def residual(t, d): return t", *piece(stub("core/rejection.py"), "reject")
    (tmp_path / "mine/core/rejection.py").write_text("\n".join(parts))
    said = says("compare", 8)
    assert "# yours, core/rejection.py:\ndef residual" in said
    assert "excess / mass" in said and "def reject(" not in said


def test_watch_grades_what_is_saved(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    command = [sys.executable, f"{SCRIPT.__file__}", "--dir", str(tmp_path), "watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            assert "watching" in watching.stdout.readline()
            whole = (PACKAGE / "core/verify.py").read_text()
            (tmp_path / "core/verify.py").write_text(whole)
            lines = iter(watching.stdout.readline, "")
            assert any("Parallel verification: done, " in line for line in lines)
        finally:
            watching.kill()
    assert json.loads((tmp_path / ".progress.json").read_text())["6"]["points"] == 1


@pytest.mark.parametrize("name, why", [(PACKAGE, "package itself"), ("f", "cannot")])
def test_a_folder_that_cannot_be_the_learners(
    says: Any, tmp_path: Path, name: object, why: str
) -> None:
    (tmp_path / "f").touch()
    assert why in says("start", name)


def test_the_folder_started_last_is_taken_as_it_is_called(
    says: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in a student's repository, whose package would do."""
    says("start", "mine ")
    monkeypatch.setattr(SCRIPT, "PACKED", tmp_path)
    assert says("status").startswith(f"{tmp_path / 'mine '}\n")


# ------------------------------------------------------------------------ the teacher


@pytest.mark.slow
def test_each_exercise_is_graded_alone_whatever_the_others_are(tmp_path: Path) -> None:
    """And whatever they print, or however they end."""
    (tmp_path / "core").mkdir()
    loud = "import os; os.system('echo noise'); os.write(1, b'more'); "
    whole = (PACKAGE / "core/verify.py").read_text()
    (tmp_path / "core/verify.py").write_text(f"{whole}\n{loud}\nNOISE = 1\n")
    late = "import os, threading; T = threading.Timer(0.1, os._exit, [3]).start()"
    (tmp_path / "core/rollback.py").write_text(f"{late}\n{RIGHT}")
    (tmp_path / "core/analysis.py").write_text("def expected_tokens(:")
    (tmp_path / "core/speculative.py").write_text(stub("core/speculative.py"))
    done = run_script("exercises", "grade", tmp_path, "--json")
    found = json.loads(done.stdout)
    assert found["points"] == 1 and found["of"] == sum(
        one.points for one in EXERCISES.values()
    )
    assert found["exercises"]["6"]["points"] == 1
    assert "line 1: invalid syntax" in found["exercises"]["12"]["verdict"]
    assert "not written yet" in found["exercises"]["10"]["verdict"]
    assert "the code ended Python" in found["exercises"]["9"]["verdict"]


@pytest.mark.slow
def test_a_students_repository_grades_without_showing_solutions(tmp_path: Path) -> None:
    out = tmp_path / "students"
    assert SCRIPT.main(["student-repo", str(out)]) == 0
    log = ["git", "-C", str(out), "log", "--oneline"]
    assert subprocess.run(log, capture_output=True, text=True).stdout.count("\n") == 1
    sources = [*(out / "minispec").rglob("*.py"), *(out / "tests/course").rglob("*.*")]
    text = "\n".join(path.read_text(errors="replace") for path in sources)
    for function in FUNCTIONS:
        file, name = function.split(":")
        body = piece((PACKAGE / file).read_text(encoding="utf-8"), name)[-2:]
        assert "\n".join(body) not in text, function

    def check(number: int) -> tuple[int, str]:
        command = [sys.executable, "scripts/exercises.py", "check", str(number)]
        done = subprocess.run(command, cwd=out, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    path = out / "minispec/core/verify.py"
    status, said = check(6)
    assert status != 0 and "not written yet: core/verify.py:verify" in said, said
    path.write_text((PACKAGE / "core/verify.py").read_text())
    status, said = check(6)
    assert status == 0 and "Parallel verification: done, " in said, said
    front = (out / "README.md").read_text()
    assert "passed" not in front and not (out / "README.zh-CN.md").exists()
    for link in re.findall(r"\]\((.+?)\)", front):
        assert (out / link).exists(), link
    minispec = [sys.executable, "-m", "minispec", "generate", "--prompt", "A"]
    done = subprocess.run(minispec, cwd=out, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    assert re.search(r"exercise \d+ is not written: try exercises", done.stderr), done
    compare = [sys.executable, "scripts/exercises.py", "compare", "6"]
    done = subprocess.run(compare, cwd=out, capture_output=True, text=True)
    assert "has no solutions" in done.stderr and done.returncode == 2


def test_what_git_does_not_track_is_not_given_to_students(tmp_path: Path) -> None:
    """It may be a teacher's own solutions."""
    clone, out = tmp_path / "clone", tmp_path / "students"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    shutil.copytree(ROOT / "tests/course", clone / "tests/course", dirs_exist_ok=True)
    (clone / "solved.py").write_text("")
    command = [sys.executable, str(clone / "scripts/exercises.py"), "student-repo"]
    subprocess.run([*command, str(out)], check=True, capture_output=True)
    assert (out / "setup.cfg").exists() and not (out / "solved.py").exists()


def test_a_students_repository_needs_a_clone(
    says: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "copy").mkdir()
    monkeypatch.setattr(SCRIPT.teaching, "ROOT", tmp_path / "copy")
    assert "needs a git clone of minispec" in says("student-repo", "out")


def test_every_command_says_in_its_help_what_it_does(capsys: Any) -> None:
    for name in re.findall(r"exercises\.py (\S+)", SCRIPT.__doc__):
        with pytest.raises(SystemExit):
            SCRIPT.main([name, "--help"])
        about = capsys.readouterr().out.split("\n\n")[1]
        assert not about.startswith(("positional", "options")), name

"""Every mistake of the zoo is caught by the tests that it names, and none by accident.

    pytest tests/test_mutants.py            the files are in order; a few are run
    pytest --slow tests/test_mutants.py     all of them are run
    python scripts/mutants.py               the same as a table
"""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from grafting import UnusableFile, binding, defined, parse
from mutating import TESTS, Outcome, names, put_in_everywhere, read, run
from script_loader import SCRIPTS

NAMES = names()
PACKAGE = TESTS.parent / "minispec"
# In every run: each a part of the round, and caught within a second.
QUICK = [
    "draft_truncated_but_its_row_is_not",
    "eos_is_ignored_inside_a_block",
    "residual_is_a_softmax",
    "rollback_is_by_count",
]

# --------------------------------------------------------------------------- the files


def test_the_zoo_is_large() -> None:
    assert len(NAMES) >= 40 and set(QUICK) < set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_mutant_says_what_it_is(name: str) -> None:
    mutant = read(name)
    assert mutant.mistake.endswith(".") and "\n" not in mutant.mistake
    assert mutant.who.endswith((".", ")."))
    assert len(mutant.path.read_text(encoding="utf-8").splitlines()) < 60
    file, function = mutant.replaces
    reference, mistaken = parse(PACKAGE / file), parse(mutant.path)
    assert function in defined(reference), f"minispec/{file} has no {function}"
    assert function in defined(mistaken)
    for module, imported in imports(mistaken):
        assert hasattr(importlib.import_module(module), imported), imported
    assert told(reference, function) != told(mistaken, function)
    assert mutant.caught_by
    for tests in mutant.caught_by:
        assert (TESTS / tests.split("::")[0]).is_file()


def imports(tree: ast.Module) -> list[tuple[str, str]]:
    """What is imported from the package, as (module, name)."""
    lines = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    lines = [node for node in lines if str(node.module).startswith(PACKAGE.name)]
    return [(str(node.module), alias.name) for node in lines for alias in node.names]


def told(tree: ast.Module, function: str) -> str:
    """The function (or table) without its docstrings and comments."""
    (found,) = binding(tree, function)
    for node in ast.walk(found):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            del node.body[0]
    return ast.unparse(found)


# -------------------------------------------------------------------------- the verdict


Outcomes = Callable[[str], list[Outcome]]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Iterator[Outcomes]:
    """What became of a mutant. All that this session asks for run side by side."""
    asked = {
        item.callspec.params["mutant"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.originalname == test_a_mutant_is_caught.__name__
        and not item.get_closest_marker("skip")
    }
    mutants = {name: read(name) for name in NAMES if name in asked}
    done: dict[str, list[Outcome]] = {name: [] for name in mutants}
    running = run(list(mutants.values()))

    def of(name: str) -> list[Outcome]:
        while len(done[name]) < len(mutants[name].caught_by):
            outcome = next(running)
            done[outcome.mutant.name].append(outcome)
        return done[name]

    yield of
    running.close()


ALL = [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)
    for name in NAMES
]


@pytest.mark.parametrize("mutant", ALL)
def test_a_mutant_is_caught(mutant: str, outcomes: Outcomes) -> None:
    """By every one of the test files that it names, each alone."""
    for outcome in outcomes(mutant):
        assert outcome.caught, f"{outcome.tests}: {outcome.verdict} {outcome.by}"


# ------------------------------------------------------------------------- the runner

RIGHT = '''
def residual(target_row, draft_row):
    excess = (target_row - draft_row).clamp(min=0)
    return target_row if excess.sum() == 0 else excess / excess.sum()
'''
# What it calls is in the reference; what it adds is its own.
SIGNED = '''
def residual(target_row, draft_row):
    return halved(target_row - draft_row)

def halved(row):
    return row / 2
'''
ENDLESS = '''
def residual(target_row, draft_row):
    while True:
        pass
'''
SLIP = "def residual(target_row, draft_row): return targte_row"
NO_FUNCTION = "def residue(target_row, draft_row): pass"
FAILS_AT_IMPORT = "import nowhere_at_all\ndef residual(target_row, draft_row): pass"
TESTED = "test_rejection.py::test_the_smallest_excess_there_is_counts"


def write(folder: Path, text: str, tests: str = TESTED) -> Path:
    path = folder / "mistake.py"
    head = '"""It.\n\nWho."""\nREPLACES = "rejection.py:residual"\n'
    path.write_text(f'{head}CAUGHT_BY = ["{tests}"]\n{text}', encoding="utf-8")
    return path


VERDICTS = {
    "the reference itself": (RIGHT, "survived", ""),
    "a mistake": (SIGNED, "caught", TESTED),
    "a slip of the pen": (SLIP, "broken", "NameError: name 'targte_row'"),
    "another name": (NO_FUNCTION, "broken", "has no function residual"),
    "an error at import": (FAILS_AT_IMPORT, "broken", "does not run"),
}


@pytest.mark.parametrize("text, verdict, by", VERDICTS.values(), ids=VERDICTS)
def test_the_verdict(tmp_path: Path, text: str, verdict: str, by: str) -> None:
    (outcome,) = run([read(write(tmp_path, text))])
    assert outcome.verdict == verdict and by in outcome.by, outcome
    assert outcome.caught == (verdict == "caught") and outcome.seconds > 0


def test_the_script_shows_survivors_and_fails(tmp_path: Path) -> None:
    survivor = write(tmp_path, RIGHT)
    done = subprocess.run(
        [sys.executable, SCRIPTS / "mutants.py", survivor, "rollback_is_by_count"],
        capture_output=True,
        text=True,
    )
    rows = done.stdout.splitlines()
    assert done.returncode == 1 and rows[-1] == "1 caught, 1 not"
    assert rows[1].split()[:3] == ["mistake", "rejection.py:residual", "SURVIVED"]
    assert rows[2].split()[:2] == ["rollback_is_by_count", "rollback.py:rollback"]
    assert rows[2].split()[2].startswith("test_rollback.py::test_")


def test_tests_that_are_not_there_catch_nothing(tmp_path: Path) -> None:
    (outcome,) = run([read(write(tmp_path, SIGNED, f"{TESTED}_at_all"))])
    assert outcome.verdict == "broken" and not outcome.caught


def test_a_mistake_that_never_ends_is_caught(tmp_path: Path) -> None:
    (outcome,) = run([read(write(tmp_path, ENDLESS))], seconds=2)
    assert outcome.verdict == "did not end" and outcome.caught
    assert outcome.by.startswith(TESTED)


def test_a_process_that_knows_the_package_cannot_be_mutated() -> None:
    importlib.import_module("minispec")
    with pytest.raises(UnusableFile, match="was imported before"):
        put_in_everywhere(read(QUICK[0]))


def test_files_that_are_no_mutants_say_why(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile, match="no mutant nothing_like_it"):
        read("nothing_like_it")
    path = tmp_path / "mistake.py"
    path.write_text('"""It.\n\nWho."""\nREPLACES = "rejection.py:residual"\n')
    with pytest.raises(UnusableFile, match="does not say CAUGHT_BY"):
        read(path)

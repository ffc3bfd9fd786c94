"""The zoo of mistakes: read one from tests/mutants/, put it in, see which test notices.

A mutant is a file named after a mistake that somebody makes:

    docstring     the mistake in one line; then who makes it, with the report if public
    REPLACES      "file:function" or "file:Class.method" of minispec/
    CAUGHT_BY     the test files of which each must notice, or "file::test" of them
    the function  as the mistaken would write it; a method stands in its class

`pytest --mutant NAME FILES` runs tests with it: the whole package is imported by a
finder that puts the mistake in, so it is everywhere in that process. `run` does the
same for many, each in a process of its own that is forked from one which has imported
what is slow to import.
"""

from __future__ import annotations

import ast
import functools
import multiprocessing
import os
import sys
import time
from collections.abc import Collection, Generator, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from grafting import (
    PACKAGE,
    Grafter,
    UnusableFile,
    fresh_import,
    import_all,
    parse,
)
from patience import alarm

TESTS = Path(__file__).resolve().parent
MUTANTS = TESTS / "mutants"
SECONDS = 30  # of processor time for one test; the slowest takes 3
# Errors of whoever wrote the mutant, and not the mistake that it stands for.
SLIPS = (
    "NameError",
    "UnboundLocalError",
    "ImportError",
    "ModuleNotFoundError",
    "TypeError",  # the package has moved on: a call no longer fits
)
SLOW_TO_IMPORT = [
    "torch.distributed.tensor",  # by torch.testing, at its first comparison
    "hypothesis.stateful",
    "numpy.random",
    "tiktoken",
]


class Mutant(NamedTuple):
    """One file of the zoo."""

    name: str
    path: Path
    mistake: str  # in one line
    who: str  # makes it
    replaces: tuple[str, str]  # file, function
    caught_by: list[str]


class Outcome(NamedTuple):
    """What some tests said of a mutant."""

    mutant: Mutant
    tests: str  # one of its `caught_by`
    verdict: str  # "caught", "did not end" (also caught), "survived" or "broken"
    by: str  # the test that noticed, or what is broken
    seconds: float

    @property
    def caught(self) -> bool:
        return self.verdict in ("caught", "did not end")


# ---------------------------------------------------------------------- reading a file


def names() -> list[str]:
    """Of all mutants."""
    return sorted(path.stem for path in MUTANTS.glob("*.py"))


def read(name: str | Path) -> Mutant:
    """The mutant of this name, or of this .py file. Raises UnusableFile."""
    path = Path(name) if Path(name).suffix == ".py" else MUTANTS / f"{name}.py"
    if not path.is_file():
        raise UnusableFile(f"no mutant {name}: there is no file {path}")
    tree = parse(path)
    given = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            given[node.targets[0].id] = node.value
    if missing := {"REPLACES", "CAUGHT_BY"} - given.keys():
        raise UnusableFile(f"{path.name} does not say {' and '.join(sorted(missing))}")
    mistake, _, who = (ast.get_docstring(tree) or "").partition("\n\n")
    file, _, function = ast.literal_eval(given["REPLACES"]).partition(":")
    caught_by = ast.literal_eval(given["CAUGHT_BY"])
    return Mutant(path.stem, path, mistake, who, (file, function), caught_by)


class MutantGrafter(Grafter):
    """Imports the package with one function replaced by a mutant's."""

    def __init__(self, mutant: Mutant) -> None:
        file, function = mutant.replaces
        module = file.replace("/__init__.py", ".py")  # as the finder knows a package
        super().__init__(mutant.path.parent, {module: [function]}, {})
        self.mutant = mutant

    def path_of(self, file: str) -> Path:
        return self.mutant.path


def put_in_everywhere(mutant: Mutant) -> None:
    """From now on, this process knows no other package; none may be imported yet."""
    early = [name for name in sys.modules if name.split(".")[0] == PACKAGE]
    if early:
        raise UnusableFile(f"{early[0]} was imported before {mutant.name} was put in")
    sys.meta_path.insert(0, MutantGrafter(mutant))


def graft_mutant(mutant: Mutant) -> ModuleType:
    """A copy of the package with the mistake in it; the package itself stays right."""
    with fresh_import(MutantGrafter(mutant)):
        return import_all()


# ------------------------------------------------------------------------ running them


def run(
    mutants: Sequence[Mutant], n_jobs: int | None = None, seconds: int = SECONDS
) -> Generator[Outcome, None, None]:
    """Each mutant against each of the tests that must catch it, as they finish."""
    waiting = [(mutant, tests) for mutant in mutants for tests in mutant.caught_by]
    running: dict[Any, tuple[Mutant, str, BaseProcess, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < (n_jobs or n_processors()):
                mutant, tests = waiting.pop(0)
                receiver, process = start(mutant, tests, seconds)
                running[receiver] = mutant, tests, process, time.monotonic()
            for ready in wait(list(running)):
                mutant, tests, process, begun = running.pop(ready)
                verdict, by = received(ready)
                process.join()
                yield Outcome(mutant, tests, verdict, by, time.monotonic() - begun)
    finally:
        for *_, process, _ in running.values():
            process.kill()


def n_processors() -> int:
    """That this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start(mutant: Mutant, tests: str, seconds: int) -> tuple[Connection, BaseProcess]:
    """A process that will send one (verdict, by)."""
    forks = "forkserver" in multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
    if forks:
        context.set_forkserver_preload(SLOW_TO_IMPORT)
    receiver, sender = context.Pipe(duplex=False)
    told = mutant, tests, seconds, sender
    process = context.Process(target=session, args=told, daemon=True)
    process.start()
    sender.close()
    return receiver, process


def received(receiver: Any) -> tuple[str, str]:
    """What the process sent."""
    try:
        verdict: tuple[str, str] = receiver.recv()
        return verdict
    except EOFError:
        return "broken", "its process died"
    finally:
        receiver.close()


def session(mutant: Mutant, tests: str, seconds: int, sender: Connection) -> None:
    """Run pytest on the tests until one fails; its `Watch` sends the verdict."""
    os.environ.update(OMP_NUM_THREADS="1", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    os.environ.pop("PYTEST_ADDOPTS", None)  # meant for whoever started this
    os.chdir(TESTS.parent)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    options = ["-p", "_hypothesis_pytestplugin", "--hypothesis-profile=unshrunk"]
    options += ["-p", "no:cacheprovider", f"--mutant={mutant.path}"]
    watch = Watch(sender, seconds)
    code = pytest.main([*options, f"{TESTS / tests}"], plugins=[watch])
    sender.send(("broken", f"pytest ended with {int(code)}"))


class Watch:
    """A plugin that says what came first, a failure or the end, and ends the process.

    At once, and not by an exception: nothing that follows could change the verdict.
    """

    def __init__(self, sender: Connection, seconds: int) -> None:
        self.sender, self.seconds = sender, seconds

    def say(self, verdict: str, by: str = "") -> None:
        self.sender.send((verdict, by.removeprefix("tests/")))
        os._exit(0)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.say("broken", f"{report.nodeid}: {error_of(report)}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.failed:
            return
        if report.when == "call" and not error_of(report).startswith(SLIPS):
            self.say("caught", report.nodeid)
        self.say("broken", f"{report.nodeid}: {error_of(report)}")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus == 0:
            self.say("survived")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[Any]:
        """A mistake may loop for ever."""
        give_up = functools.partial(self.say, "did not end", item.nodeid)
        with alarm(self.seconds, give_up):
            return (yield)


def error_of(report: pytest.CollectReport | pytest.TestReport) -> str:
    """What went wrong, in one line."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message).partition("\n")[0]
    return report.longreprtext.strip().rpartition("\n")[2]


def survivors(outcomes: Collection[Outcome]) -> list[Outcome]:
    """Whose mistake went unnoticed, or did not even run."""
    return [outcome for outcome in outcomes if not outcome.caught]

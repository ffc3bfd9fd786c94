"""The exercises: parts of speculative decoding to write yourself, graded by tests.

    python scripts/exercises.py start mine      stubs in the folder `mine`, remembered
    python scripts/exercises.py next            what to do next
    python scripts/exercises.py status          the table
    python scripts/exercises.py show 8          what exercise 8 asks
    python scripts/exercises.py check 8         grade it; without a number, all together
    python scripts/exercises.py watch           grade what you save, as soon as you do
    python scripts/exercises.py hint 8          a hint; `hint 8 2` is the second
    python scripts/exercises.py compare 8       what you wrote and the package's own
    python scripts/exercises.py reset 8         back to its stubs
    python scripts/exercises.py run -- compare  any minispec command on your code

It works in any folder. In a notebook: `from workbench import check`, then `check(8)`.
`pytest --impl=mine -m exercise8` is what `check 8` runs. For teachers
(notebooks/teaching.md):

    python scripts/exercises.py grade DIR --json       points and messages
    python scripts/exercises.py student-repo OUT       all of this without solutions
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from contextlib import nullcontext, suppress
from itertools import chain, count
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT / "tests"), str(PROJECT)]

from course import teaching  # noqa: E402
from course.catalogue import EXERCISES, FUNCTIONS, Exercise  # noqa: E402
from course.learners import is_written, parsed, with_functions  # noqa: E402
from course.overlay import PACKAGE, PACKED, put_in_front, reference  # noqa: E402
from course.progress import known  # noqa: E402
from course.sessions import graded, warm_up  # noqa: E402
from course.stubs import emptied, piece, stub  # noqa: E402

FILES = [*dict.fromkeys(file for one in EXERCISES.values() for file in one.files)]
REMEMBERED = PROJECT / ".exercises"  # holds the learner's folder
PROGRESS = ".progress.json"  # in that folder: how each exercise went, graded last


def main(arguments: list[str] | None = None) -> int:
    """Do what the sub-command asks; 2 for what cannot be done, in one line.

    Without `ended`: to import the package takes seconds, and `run` wants the copy.
    """
    args = parser().parse_args(arguments)
    try:
        if getattr(args, "number", None) not in {*EXERCISES, None}:
            raise ValueError(f"exercises are 1 to {len(EXERCISES)}, got {args.number}")
        return args.does(args) or 0
    except BrokenPipeError:  # `| head` has read enough
        return 0
    except (ValueError, OSError) as error:
        why = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            why = f"cannot use {error.filename}: {error.strerror}"
        print(f"exercises.py: {why}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dir", type=Path, help="your folder, if not the last started")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, does: Any) -> argparse.ArgumentParser:
        one = commands.add_parser(name, description=does.__doc__)
        one.set_defaults(does=does)
        return one

    command("start", start).add_argument("folder", type=Path, metavar="DIR")
    for does in (status, watch):
        command(does.__name__, does)
    command("next", following)
    for does in (show, compare, reset):
        one = command(does.__name__, does)
        one.add_argument("number", type=int, metavar="N")
        if does is compare:
            one.add_argument("--anyway", action="store_true", help="without your own")
    command("check", check).add_argument("number", type=int, metavar="N", nargs="?")
    hinted = command("hint", hint)
    hinted.add_argument("number", type=int, metavar="N")
    hinted.add_argument("which", nargs="?", type=int, choices=(1, 2), default=1)
    running = command("run", run)
    running.add_argument("--traceback", action="store_true", help="of an error, whole")
    running.add_argument("rest", nargs="...", metavar="COMMAND ...")
    grade = command("grade", teaching.grade)
    grade.add_argument("folder", type=Path, metavar="DIR")
    grade.add_argument("--json", action="store_true", help="for a program to read")
    repository = command("student-repo", teaching.student_repo)
    repository.add_argument("out", type=Path, metavar="OUT")
    return parser


def folder_of(args: argparse.Namespace) -> Path:
    """The learner's: given, around the working directory, or the last one started."""
    here = Path.cwd()
    found = [one for one in (here, *here.parents) if (one / PROGRESS).exists()]
    with suppress(OSError):
        found.append(Path(REMEMBERED.read_text(encoding="utf-8").rstrip("\n")))
    found += [PACKAGE] if PACKED.exists() else []  # a student's repository
    folder: Path | None = args.dir or next(iter(found), None)
    if folder is None:
        raise ValueError("no folder is known: exercises.py start DIR makes one")
    if not folder.is_dir():
        name = repr(str(folder))
        raise ValueError(f"{name}: no such folder; exercises.py start makes it")
    return plain(folder)


def plain(folder: Path) -> Path:
    """The whole path of a folder of the learner's own, which is safe to print."""
    if not str(folder.resolve()).isprintable():
        raise ValueError(f"{str(folder)!r} has control characters: choose another name")
    if folder.resolve() == PACKAGE and not PACKED.exists():
        raise ValueError(f"{folder} is the package itself: choose a folder of your own")
    return folder.resolve()


def show(args: argparse.Namespace) -> None:
    """What an exercise asks."""
    one = EXERCISES[args.number]
    print(f"Exercise {one.number}: {one.title}\n\n{one.asks}\n")
    print(f"Grade it: exercises.py check {one.number}")


def hint(args: argparse.Namespace) -> None:
    """The first hint of an exercise, or the second."""
    print(EXERCISES[args.number].hints[args.which - 1])
    if args.which == 1:
        print(f"\nThe second one: exercises.py hint {args.number} 2")


def following(args: argparse.Namespace) -> None:
    """Show the first exercise that is not done."""
    folder = folder_of(args)
    verdicts = known(folder / PROGRESS)
    for args.number, one in EXERCISES.items():
        if state(folder, one, verdicts) != "done":
            show(args)
            print("Write in:", *(folder / file for file in one.files))
            return
    print("All done. Your own speed-up: exercises.py run -- compare")


def compare(args: argparse.Namespace) -> None:
    """The learner's functions, and the package's of those that are written."""
    if PACKED.exists():
        raise ValueError("this repository has no solutions to compare with")
    n, functions = args.number, EXERCISES[args.number].functions
    written: list[str] = []
    with suppress(ValueError) if args.anyway else nullcontext():
        folder = folder_of(args)
        written = [function for function in functions if is_written(folder, function)]
        if not (written or args.anyway):
            raise ValueError(
                f"nothing of exercise {n} is written in {folder}: try it first "
                f"(exercises.py hint {n} helps). To see the package's all the same: "
                f"exercises.py compare {n} --anyway"
            )
    for function in functions if args.anyway else written:
        file, name = function.split(":")
        if function in written:
            text = (folder / file).read_text(encoding="utf-8-sig")
            print(f"# yours, {file}:", *piece(text, name), "", sep="\n")
        print(f"# minispec/{file}:", *piece(reference(file), name), "", sep="\n")


def start(args: argparse.Namespace) -> None:
    """Write a stub for each file that is not there yet, and remember the folder."""
    folder = plain(args.folder)
    missing = [file for file in FILES if not (folder / file).exists()]
    for file in missing:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        write(folder / file, stub(file))
    if not (folder / PROGRESS).exists():
        write(folder / PROGRESS, "{}\n")
    write(REMEMBERED, f"{folder}\n")
    n = len(missing)
    print(f"{n} file{'s' * (n != 1)} written to {folder}, {len(FILES) - n} kept")
    print("Begin: exercises.py next")


def reset(args: argparse.Namespace) -> None:
    """Back to the stubs of these functions; the file as it was stays beside it."""
    folder, one = folder_of(args), EXERCISES[args.number]
    for file in one.files:
        path = folder / file
        if not path.exists():
            write(path, stub(file))
            continue
        kept = unused(path.with_suffix(".py.old"))
        kept.write_bytes(path.read_bytes())
        try:
            text, how = parsed(path)[0], "reset"
            for name in one.names_in(file):
                text = emptied(text, file, name)
        except (ValueError, SyntaxError) as error:
            text, how = stub(file), f"could not be read ({error}) and is all stubs now"
        write(path, text)
        print(f"{path}: {how}; what you had is in {kept.name}")


def unused(path: Path) -> Path:
    """The path, or the first of path2, path3, ... that is not there yet."""
    others = (path.with_name(f"{path.name}{n}") for n in count(2))
    return next(one for one in chain([path], others) if not one.exists())


def write(path: Path, text: str) -> None:
    from minispec.files.whole import replacing

    with replacing(path) as part:
        part.write_text(text, encoding="utf-8")


def status(args: argparse.Namespace) -> None:
    """What is written, and how it went when it was graded last."""
    folder = folder_of(args)
    verdicts = known(folder / PROGRESS)
    print(folder)
    for one in EXERCISES.values():
        about = f"notebook {one.notebook:>2}, {one.minutes} min {'*' * one.points:<3}"
        how = state(folder, one, verdicts)
        print(f"{one.number:>3}  {one.title:<36} {about}  {how}")


def state(folder: Path, one: Exercise, verdicts: dict[str, dict[str, Any]]) -> str:
    """"-" where nothing is written; "done", or what is missing, as graded last."""
    with suppress(ValueError):
        if not any(is_written(folder, function) for function in one.functions):
            return "-"
    if not (last := verdicts.get(str(one.number))):
        return "not graded yet"
    word = "done" if last["points"] else last["verdict"].partition(";")[0]
    if word.startswith("read what broke"):  # which is above only after `check`
        word = f"failed; `check {one.number}` says why"
    paths = [folder / file for file in one.files if (folder / file).exists()]
    changed = max(path.stat().st_mtime for path in paths) > last["at"]
    return f"{word} (changed since)" if changed else word


def check(args: argparse.Namespace) -> int:
    """Grade one exercise, or all that is written together."""
    folder, numbers = folder_of(args), [args.number] if args.number else []
    known(folder / PROGRESS)  # says so now if it is damaged
    status, said = graded(folder, numbers, folder / PROGRESS)
    print(said, end="")
    return status


def watch(args: argparse.Namespace) -> None:
    """Grade what is saved, until Ctrl-C."""
    folder = folder_of(args)
    warm_up()
    print(f"watching {folder}: save a file, and it is graded; Ctrl-C ends", flush=True)
    seen = saved(folder)
    while True:
        time.sleep(0.1)
        now = saved(folder)
        files = {file for file in now if now[file] != seen.get(file)}
        seen = now
        numbers = [n for n, one in EXERCISES.items() if files & {*one.files}]
        if numbers := [n for n in numbers if state(folder, EXERCISES[n], {}) != "-"]:
            print(graded(folder, numbers, folder / PROGRESS)[1], flush=True)


def saved(folder: Path) -> dict[str, int]:
    paths = {file: folder / file for file in FILES}
    return {f: path.stat().st_mtime_ns for f, path in paths.items() if path.exists()}


def run(args: argparse.Namespace) -> int:
    """`minispec COMMAND` on everything that the learner has written."""
    folder, command = folder_of(args), args.rest[args.rest[:1] == ["--"] :]
    written = [function for function in FUNCTIONS if is_written(folder, function)]
    if not written:
        raise ValueError(
            f"{folder} holds no function of an exercise yet: exercises.py next says "
            "what to write"
        )
    copy = put_in_front(with_functions(folder, written))
    print(f"yours: {', '.join(one.split(':')[1] for one in written)}", file=sys.stderr)
    with copy:
        from minispec.commands.cli import main as minispec, run_command
        from minispec.commands.ending import ended
        from minispec.commands.ranks import quiet

        from course.telling import run_failure  # imports hypothesis: takes time

        def in_one_sentence() -> int:
            try:
                return run_command(command)
            except Exception as error:
                if is_complaint(folder, error):
                    raise
                rest = " ".join(command)
                more = f"the whole traceback: exercises.py run --traceback -- {rest}"
                raise ValueError(f"{run_failure(folder, error)}; {more}") from error

        if args.traceback:
            status = minispec(command)
        else:
            quiet()
            status = ended(in_one_sentence, "exercises.py")
    if status == 0 and (doubts := in_doubt(folder, written)):
        print(
            f"{doubts}: this result may be wrong, and a speculative text may have "
            "another distribution than the target's",
            file=sys.stderr,
        )
    return status


def in_doubt(folder: Path, written: list[str]) -> str:
    """Which of the exercises written here have not passed as they are now."""
    verdicts = known(folder / PROGRESS)
    kinds = {
        "not graded yet": "been checked",
        "changed since": "been checked since the last change",
    }
    found: dict[str, list[str]] = {}
    for number in sorted({FUNCTIONS[function] for function in written}):
        if (how := state(folder, EXERCISES[number], verdicts)) != "done":
            how = "changed since" if how.endswith("(changed since)") else how
            found.setdefault(kinds.get(how, "passed"), []).append(str(number))
    return "; ".join(
        f"exercise{'s' * (len(numbers) > 1)} {', '.join(numbers)} "
        f"{'have' if len(numbers) > 1 else 'has'} not {what}"
        for what, numbers in found.items()
    )


def is_complaint(folder: Path, error: Exception) -> bool:
    """Whether the command says what is wrong with its input, not with its code."""
    raised_at = traceback.extract_tb(error.__traceback__)[-1].filename
    own = Path(raised_at).is_relative_to(folder)
    return isinstance(error, (ValueError, OSError, ImportError)) and not own


if __name__ == "__main__":
    sys.exit(main())

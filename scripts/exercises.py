"""The exercises: thirteen parts of speculative decoding to write yourself.

    python scripts/exercises.py start mine            stubs in the folder `mine`
    python scripts/exercises.py list                  all exercises
    python scripts/exercises.py show 8                what exercise 8 asks
    python scripts/exercises.py hint 8                a hint; `hint 8 2` is the second
    pytest --impl=mine -m exercise8                   grade it; without -m: all
    python scripts/exercises.py run mine -- compare   any command on your own code

A stub is the package's file with the bodies of the graded functions taken out. Files
that are there already stay as they are: delete one to get its stub again.
"""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(PROJECT / "tests"), str(PROJECT)]

from course.catalogue import EXERCISES  # noqa: E402
from course.overlay import PACKAGE, Unusable, definitions  # noqa: E402
from course.overlay import is_written, put_in_front, with_functions  # noqa: E402


def main() -> int:
    """Do what the sub-command asks."""
    args = arguments()
    if args.command == "run":
        return run(args.folder, args.rest[args.rest[:1] == ["--"] :])
    from minispec.commands.ending import ended  # not above: `run` imports the copy

    return ended(lambda: print(answer(args)))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in ("start", "run"):
        commands.add_parser(name).add_argument("folder", type=Path, metavar="DIR")
    commands.choices["run"].add_argument("rest", nargs="...", metavar="COMMAND ...")
    commands.add_parser("list")
    for name in ("show", "hint"):
        commands.add_parser(name).add_argument("number", type=int, metavar="N")
    hint = commands.choices["hint"]
    hint.add_argument("which", nargs="?", type=int, choices=(1, 2), default=1)
    return parser.parse_args()


def answer(args: argparse.Namespace) -> str:
    """What to say. Raises ValueError for an exercise that is not there."""
    if args.command == "start":
        return start(args.folder)
    if args.command == "list":
        return "\n".join(f"{n:>2}  {one.title}" for n, one in EXERCISES.items())
    if args.number not in EXERCISES:
        raise ValueError(f"exercises are 1 to {len(EXERCISES)}, got {args.number}")
    one = EXERCISES[args.number]
    if args.command == "hint":
        return one.hints[args.which - 1]
    grade = f"Grade it: pytest --impl=DIR -m exercise{one.number}"
    return f"Exercise {one.number}: {one.title}\n\n{one.asks}\n\n{grade}"


def run(folder: Path, command: list[str]) -> int:
    """`minispec COMMAND` on everything that the learner has written."""
    functions = [one for every in EXERCISES.values() for one in every.functions]
    try:
        if not folder.is_dir():
            makes = f"exercises.py start {folder} makes it"
            raise Unusable(f"{folder}: no such folder; {makes}")
        written = [one for one in functions if is_written(folder, one)]
        if not written:
            raise Unusable(f"{folder} holds no function of an exercise yet")
        copy = put_in_front(with_functions(folder, written))
    except Unusable as error:
        print(f"exercises.py: {error}", file=sys.stderr)
        return 2
    print(f"yours: {', '.join(one.split(':')[1] for one in written)}", file=sys.stderr)
    with copy:
        from minispec.commands.cli import main as minispec

        return minispec(command)


# ---------------------------------------------------------------------------- stubs


def start(folder: Path) -> str:
    """Write a stub for each file that is not there yet, and say so."""
    from minispec.files.whole import replacing

    numbers = {f: one.number for one in EXERCISES.values() for f in one.functions}
    files = dict.fromkeys(function.split(":")[0] for function in numbers)
    missing = [file for file in files if not (folder / file).exists()]
    for file in missing:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        with replacing(folder / file) as part:
            part.write_text(stub(file, numbers), encoding="utf-8")
    n = len(missing)
    if not missing:
        return f"all {len(files)} files are there and stay: delete one to get its stub"
    return (
        f"{n} file{'s' * (n != 1)} written to {folder}, {len(files) - n} kept. "
        f"Begin, in {PROJECT}:\n\n  python scripts/exercises.py show 1\n"
        f"  pytest --impl={folder.resolve()} -m exercise1"
    )


def stub(file: str, numbers: dict[str, int]) -> str:
    """The file's text with the body of every graded function taken out."""
    source = (PACKAGE / file).read_text(encoding="utf-8")
    lines, found = source.splitlines(), definitions(ast.parse(source))
    graded = [one.split(":")[1] for one in numbers if one.startswith(f"{file}:")]
    for name in sorted(graded, key=lambda name: -found[name].lineno):
        function = found[name]
        assert isinstance(function, ast.FunctionDef)
        first = function.body[0]
        if ast.get_docstring(function):
            begin = first.end_lineno or first.lineno
        else:  # after the signature; a comment there is part of the solution
            begin = first.lineno - 1
            while lines[begin - 1].lstrip().startswith("#"):
                begin -= 1
        number = numbers[f"{file}:{name}"]
        error = f'raise NotImplementedError("exercise {number}: {name}")'
        lines[begin : function.end_lineno] = [" " * first.col_offset + error]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())

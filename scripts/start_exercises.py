"""Make a folder of exercises: the reference's modules without the graded functions.

    python scripts/start_exercises.py mine            write the stubs
    python scripts/start_exercises.py --list          all exercises
    python scripts/start_exercises.py --show 8        what exercise 8 asks
    python scripts/start_exercises.py --hint 8        its first hint, then its second
    pytest --impl=mine -m exercise8                   grade it; without -m: all

A stub is its reference with the bodies of the graded functions replaced; signatures,
docstrings and everything else stay. Only the graded functions are graded, together with
helpers that you add; whatever else you change in these files is not looked at.
"""

from __future__ import annotations

import argparse
import ast
import textwrap
from pathlib import Path

from exercises import EXERCISES, Exercise, exercise, graded_files, graded_names

PACKAGE = Path(__file__).resolve().parents[1] / "minispec"
GIVEN = ".hints"  # in the learner's folder: which hints have been seen


def main() -> None:
    """Do what the options ask for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR")
    parser.add_argument("--list", action="store_true", help="name all exercises")
    parser.add_argument("--show", type=int, metavar="N", help="what exercise N asks")
    parser.add_argument(
        "--hint",
        type=int,
        metavar="N",
        help="a hint for exercise N; asked again, the second (remembered in DIR, or "
        "in the current folder)",
    )
    args = parser.parse_args()
    try:
        if args.list:
            print(listing())
        elif args.show is not None:
            print(description(exercise(args.show)))
        elif args.hint is not None:
            print(next_hint(exercise(args.hint), args.folder or Path()))
        elif args.folder is not None:
            write_stubs(args.folder)
            print(welcome(args.folder))
        else:
            parser.error("give a folder for the stubs, or --list, --show or --hint")
    except (ValueError, OSError) as error:
        parser.exit(2, f"start_exercises.py: {error}\n")


# ---------------------------------------------------------------------------- stubs


def write_stubs(folder: Path) -> None:
    """One file for each module that holds a graded function.

    Raises ValueError where a file is there already: nobody's work is overwritten.
    """
    taken = [name for name in graded_files() if (folder / name).exists()]
    if taken:
        raise ValueError(
            f"{folder} already holds {', '.join(taken)}: give another folder, or "
            "move these away to start again"
        )
    for name in graded_files():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        source = (PACKAGE / name).read_text(encoding="utf-8")
        path.write_text(stub(source, graded_names(name)), encoding="utf-8")


def stub(source: str, graded: dict[str, int]) -> str:
    """The module's text with the body of every graded function replaced."""
    lines = source.splitlines()
    functions = named_functions(ast.parse(source))
    for name in sorted(graded, key=lambda name: -functions[name].lineno):
        function = functions[name]
        body = function.body[1:] if ast.get_docstring(function) else function.body
        # A comment above the first statement is a part of the solution too.
        start = function.body[0].end_lineno if len(body) < len(function.body) else None
        first = (start or signature_end(function, lines)) + 1
        indent = " " * function.body[0].col_offset
        error = f'"exercise {graded[name]}: {name}"'
        lines[first - 1 : function.end_lineno] = [
            f"{indent}raise NotImplementedError({error})"
        ]
    return "\n".join(lines) + "\n"


def named_functions(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Functions by name, methods as Class.method."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            found.update({f"{node.name}.{one.name}": one for one in methods})
    return found


def signature_end(function: ast.FunctionDef, lines: list[str]) -> int:
    """The last line of the signature: the one before the body and its comments."""
    line = function.body[0].lineno - 1
    while lines[line - 1].lstrip().startswith("#"):
        line -= 1
    return line


# ----------------------------------------------------------------------------- texts


def listing() -> str:
    """One line for each exercise."""
    return "\n".join(
        f"{one.number:>2}  {one.title:<42}  {', '.join(one.functions)}"
        for one in EXERCISES
    )


def description(one: Exercise) -> str:
    """Everything about an exercise but its hints."""
    functions = "\n".join(f"  {function}" for function in one.functions)
    equation = textwrap.indent(one.equation, "  ")
    return (
        f"Exercise {one.number}: {one.title}\n\n{filled(one.why)}\n\n"
        f"The paper:\n{equation}\n\nWhat to write:\n{functions}\n\n"
        f"Contract:\n{filled(one.contract)}\n\nRead next: {one.read_next}"
    )


def filled(text: str) -> str:
    """The paragraph in lines of 80 characters."""
    return textwrap.fill(text, 80)


def next_hint(one: Exercise, folder: Path) -> str:
    """The first hint, or if that has been seen, the second; then both again."""
    record = folder / GIVEN
    given = record.read_text().split() if record.is_file() else []
    seen = given.count(str(one.number))
    if seen < len(one.hints):
        record.write_text(" ".join([*given, str(one.number)]) + "\n")
        more = " (ask again for the other)" if seen == 0 else ""
        return filled(f"Hint {seen + 1} of {len(one.hints)}: {one.hints[seen]}") + more
    both = [filled(f"Hint {i}: {hint}") for i, hint in enumerate(one.hints, 1)]
    return "\n".join(both)


def welcome(folder: Path) -> str:
    """What to do with the stubs."""
    return (
        f"{len(EXERCISES)} exercises in {folder}. Start with the first:\n\n"
        "  python scripts/start_exercises.py --show 1\n"
        f"  pytest --impl {folder} -m exercise1"
    )


if __name__ == "__main__":
    main()

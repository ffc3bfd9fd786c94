"""Make a folder of exercises: the reference's modules without the graded functions.

    python scripts/start_exercises.py mine            write the stubs
    python scripts/start_exercises.py --list          all exercises
    python scripts/start_exercises.py --show 8        what exercise 8 asks
    python scripts/start_exercises.py --hint 8        its first hint, then its second
    pytest --impl=mine -m exercise8                   grade it; without -m: all

A stub is its reference with the bodies of the graded functions replaced; signatures,
docstrings and everything else stay. Only the graded functions are graded, together with
imports and helpers that you add to the same file; whatever else you change in it is not
looked at. Files that are there already stay as they are: delete one to get its stub.
"""

from __future__ import annotations

import argparse
import ast
import sys
import textwrap
from pathlib import Path

from ending import ended
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
        help="a hint for exercise N; asked again, the second (remembered in .hints, "
        "in DIR or else in the project)",
    )
    args = parser.parse_args()
    try:
        if args.list:
            print(listing())
        elif args.show is not None:
            print(description(exercise(args.show)))
        elif args.hint is not None:
            print(next_hint(exercise(args.hint), args.folder or PACKAGE.parent))
        elif args.folder is not None:
            print(welcome(args.folder, write_stubs(args.folder)))
        else:
            parser.error("give a folder for the stubs, or --list, --show or --hint")
    except BrokenPipeError:
        raise  # for `ended`
    except (ValueError, OSError) as error:
        parser.exit(2, f"start_exercises.py: {error}\n")


# ---------------------------------------------------------------------------- stubs


def write_stubs(folder: Path) -> list[str]:
    """A stub for each module that holds a graded function, and their names.

    Where a file is there already it stays: nobody's work is overwritten.
    """
    missing = [name for name in graded_files() if not (folder / name).exists()]
    for name in missing:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        source = (PACKAGE / name).read_text(encoding="utf-8")
        path.write_text(stub(source, graded_names(name)), encoding="utf-8")
    return missing


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
    files = {f"minispec/{function.split(':')[0]}" for function in one.functions}
    after = f"When it passes, compare with {' and '.join(sorted(files))}."
    return (
        f"Exercise {one.number}: {one.title}\n\n{filled(one.why)}\n\n"
        f"The paper:\n{equation}\n\nWhat to write, in your folder:\n{functions}\n\n"
        f"Contract:\n{filled(one.contract)}\n\n"
        f"Grade it: pytest --impl=DIR -m exercise{one.number}\n"
        f"{filled(after)}\nRead next: {one.read_next}"
    )


def filled(text: str) -> str:
    """The paragraph in lines of 80 characters."""
    return textwrap.fill(text, 80)


def next_hint(one: Exercise, folder: Path) -> str:
    """The first hint, or if that has been seen, the second; then both again.

    Raises ValueError where there is no such folder.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder")
    record = folder / GIVEN
    given = record.read_text().split() if record.is_file() else []
    seen = given.count(str(one.number))
    if seen < len(one.hints) and noted(record, [*given, str(one.number)]):
        more = " (Ask again for the other.)" if seen == 0 else ""
        return filled(f"Hint {seen + 1} of {len(one.hints)}: {one.hints[seen]}{more}")
    both = [filled(f"Hint {i}: {hint}") for i, hint in enumerate(one.hints, 1)]
    return "\n".join([*both, "There are no more."])


def noted(record: Path, given: list[str]) -> bool:
    """Whether it could be written down: if not, hints cannot come one by one."""
    try:
        record.write_text(" ".join(given) + "\n")
    except OSError:
        return False
    return True


def welcome(folder: Path, written: list[str]) -> str:
    """What was written, and what to do with it."""
    n, n_kept = len(graded_files()), len(graded_files()) - len(written)
    if not written:
        return (
            f"{folder} has all {n} files already, and they stay as they are: delete "
            "one to get its stub again"
        )
    if n_kept:
        return f"{n_kept} files of {folder} stay; written again: {', '.join(written)}"
    project, where = PACKAGE.parent, ""
    if Path.cwd() != project:  # pytest knows --impl only there
        folder, where = folder.resolve(), f", in {project}"
    return (
        f"{len(EXERCISES)} exercises in {folder}. Start with the first{where}:\n\n"
        "  python scripts/start_exercises.py --show 1\n"
        f"  pytest --impl={folder} -m exercise1"
    )


if __name__ == "__main__":
    sys.exit(ended(main))

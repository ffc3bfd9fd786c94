"""The overlay: a copy of the package in which some functions or lines are replaced.

It goes in front of sys.path before `minispec` is imported, so whatever imports the
package afterwards, tests and commands alike, runs on it. Exercises (the learner's
functions), mistakes (old lines, new lines) and `exercises.py run` all use it.

Nothing here imports `minispec`: that would come too early.
"""

from __future__ import annotations

import ast
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "minispec"

# What stands at the end of a module that has functions of a learner. They are compiled
# under their own file's name, so that errors point to the learner's lines.
PART = """
_given = dict(globals())
exec(compile({text!r}, {path!r}, "exec"))
for _class, _method in {methods!r}:
    setattr(_given[_class], _method, vars(globals()[_class])[_method])
globals().update((_class, _given[_class]) for _class, _ in {methods!r})
"""


class Unusable(Exception):
    """Why a file cannot be used, in one sentence."""


def put_in_front(texts: Mapping[str, str]) -> tempfile.TemporaryDirectory[str]:
    """Make `minispec` mean a copy with these files, {"core/verify.py": its text}.

    The copy lasts as long as the folder returned. Raises Unusable where the package
    was imported before.
    """
    if "minispec" in sys.modules:
        raise Unusable("minispec was imported before the overlay was made")
    folder = tempfile.TemporaryDirectory(prefix="minispec-")
    package = Path(folder.name, "minispec")
    half_written = shutil.ignore_patterns("*.pyc.*")
    shutil.copytree(PACKAGE, package, ignore=half_written)
    with suppress(OSError):  # not allowed: then the shipped pair is not found
        os.symlink(ROOT / "weights", Path(folder.name, "weights"))
    for file, text in texts.items():
        (package / file).write_text(text, encoding="utf-8")
    sys.path.insert(0, folder.name)
    return folder


def with_lines(file: str, changes: Iterable[tuple[str, str]]) -> str:
    """The file of the package with each old text, whole lines, replaced by the new.

    Raises Unusable for an old text that does not occur exactly once.
    """
    text = (PACKAGE / file).read_text(encoding="utf-8")
    for old, new in changes:
        if (n := f"\n{text}".count(f"\n{old}")) != 1:
            raise Unusable(f"{file} has these lines {n} times, not once:\n{old}")
        text = f"\n{text}".replace(f"\n{old}", f"\n{new}")[1:]
    return text


# ------------------------------------------------------------- a learner's functions


def with_functions(folder: Path, functions: Iterable[str]) -> dict[str, str]:
    """The package's files with a learner's functions, {"core/verify.py": its text}.

    `functions` are "core/verify.py:verify" or "model/kv_cache.py:KVCache.append". With
    them come the imports and helpers that the learner's file adds; all else in it stays
    the package's. Raises Unusable.
    """
    wanted: dict[str, list[str]] = {}
    for function in functions:
        file, name = function.split(":")
        wanted.setdefault(file, []).append(name)
    return {file: grafted(folder, file, names) for file, names in wanted.items()}


def grafted(folder: Path, file: str, names: list[str]) -> str:
    """One file of the package with the functions of that name put in at its end."""
    path = (folder / file).resolve()
    source, tree = parsed(path)
    reference = (PACKAGE / file).read_text(encoding="utf-8")
    given = definitions(ast.parse(reference))
    kept: set[int] = set()
    methods: list[tuple[str, str]] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in given:
            added = [
                one
                for one in node.body
                if (name := f"{node.name}.{getattr(one, 'name', '')}") in names
                or (isinstance(one, ast.FunctionDef) and name not in given)
            ]
            methods += [(node.name, getattr(one, "name")) for one in added]
            if added:
                kept.update(range(node.lineno, first_line(node.body[0])))
                kept.update(*map(lines_of, added))
        elif not (bound := names_of(node)) or bound - {*given} or bound & {*names}:
            kept.update(lines_of(node))
    lines = enumerate(source.split("\n"), 1)
    text = "\n".join(line if n in kept else "" for n, line in lines)
    return reference + PART.format(text=text, path=str(path), methods=methods)


def parsed(path: Path) -> tuple[str, ast.Module]:
    """The text of a learner's file, and its syntax tree. Raises Unusable."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        return text, ast.parse(text, str(path))
    except OSError as error:
        raise Unusable(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        what = f"{path} is not UTF-8 (byte {error.start + 1}): save it as UTF-8"
        raise Unusable(what) from error
    except SyntaxError as error:
        where, line = f"{path}, line {error.lineno}", (error.text or "").strip()
        raise Unusable(f"{where}: {error.msg}: {line:.80}") from error
    except ValueError as error:  # a null byte, until Python 3.12
        raise Unusable(f"{path}: {error}") from error


def definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    """What a module defines, by name; methods as Class.method. The last counts."""
    found: dict[str, ast.stmt] = {}
    for node in tree.body:
        found.update(dict.fromkeys(names_of(node), node))
        if isinstance(node, ast.ClassDef):
            for one in node.body:
                found.update((f"{node.name}.{name}", one) for name in names_of(one))
    return found


def names_of(node: ast.stmt) -> set[str]:
    """The names that a statement binds; an import, which does no harm, binds none."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        found = [one for one in ast.walk(node) if isinstance(one, ast.Name)]
        return {one.id for one in found if isinstance(one.ctx, ast.Store)}
    return set()


def lines_of(node: ast.stmt) -> range:
    """The lines of a statement, decorators included; none of a __future__ import."""
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return range(0)  # the package's file has it
    return range(first_line(node), (node.end_lineno or node.lineno) + 1)


def first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])


def is_written(folder: Path, function: str) -> bool:
    """Whether the learner's folder has this function, and not only its stub.

    Raises Unusable for a file that has neither.
    """
    file, name = function.split(":")
    if not (folder / file).is_file():
        return False
    found = definitions(parsed(folder / file)[1])
    if name not in found:
        raise Unusable(f"{folder / file} has no function {name}")
    last = getattr(found[name], "body", [found[name]])[-1]
    return not ast.unparse(last).startswith("raise NotImplementedError('exercise")

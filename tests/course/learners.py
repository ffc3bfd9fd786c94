"""A learner's folder: which functions are written, and the package with them in it.

The learner's file is cut down to what is asked, plus the imports and helpers it adds:
functions, constants, classes, and new members and bases of a class that is there. The
rest of the file stays the package's. The package's own version of what is asked is
deleted first, so that nothing can call it instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from course.overlay import Unusable, reference

# What stands at the end of a module that has functions of a learner. They are compiled
# under their own file's name, so that errors point to the learner's lines.
PART = """
for _name in {names!r}:
    _class, _, _name = _name.rpartition(".")
    delattr(globals()[_class], _name) if _class else globals().pop(_name)
_given = dict(globals())
exec(compile({text!r}, {path!r}, "exec"))
for _class in {classes!r}:
    _new, _old = globals()[_class], _given[_class]
    for _base in reversed(_new.__mro__):
        for _name, _value in ({{}} if _base in _old.__mro__ else vars(_base)).items():
            if not hasattr(_old if _base is not _new else type("", (), {{}}), _name):
                setattr(_old, _name, _value)
    globals()[_class] = _old
"""


def with_functions(folder: Path, functions: Iterable[str]) -> dict[str, str]:
    """The package's files with a learner's functions, {"core/verify.py": its text}.

    `functions` are "core/verify.py:verify" or "model/kv_cache.py:KVCache.append".
    Raises Unusable.
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
    refuse_imports(path, tree, names)
    given = definitions(ast.parse(reference(file)))
    kept: set[int] = set()
    classes: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in given:
            added = [
                one
                for one in node.body
                if (own := {f"{node.name}.{name}" for name in names_of(one)})
                and (own & {*names} or not own & {*given})
            ]
            if added:
                classes.append(node.name)
                kept.update(range(node.lineno, first_line(node.body[0])))
                kept.update(*map(lines_of, added))
        elif not (bound := names_of(node)) or bound - {*given} or bound & {*names}:
            kept.update(lines_of(node))
    lines = enumerate(source.split("\n"), 1)
    text = "\n".join(line if n in kept else "" for n, line in lines)
    part = PART.format(names=names, text=text, path=str(path), classes=classes)
    return reference(file) + part


def refuse_imports(path: Path, tree: ast.Module, names: list[str]) -> None:
    """Raises Unusable for an import, from the package, of what is to be written."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            own = node.level or (node.module or "").split(".")[0] == "minispec"
            for one in node.names:
                if own and one.name in names:
                    raise Unusable(
                        f"{path}, line {node.lineno}: it imports {one.name} from "
                        "minispec, which is what the exercise asks you to write"
                    )


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
    node = found[name]
    if isinstance(node, ast.ClassDef):
        raise Unusable(f"{folder / file}: {name} is a class and should be a function")
    body = [one for one in getattr(node, "body", [node]) if not is_text(one)]
    raised = "raise NotImplementedError('exercise"
    return [ast.unparse(one)[: len(raised)] for one in body] != [raised]


def not_graded(folder: Path, functions: Iterable[str]) -> Iterator[str]:
    """A sentence for each file with something new that will not be used."""
    wanted = {*functions}
    graded = {function.split(":")[0] for function in wanted}
    for path in sorted(folder.rglob("*.py")):
        file = path.relative_to(folder).as_posix()
        if any(part.startswith((".", "__")) for part in Path(file).parts):
            continue
        if file not in graded:
            if not same_text(path, file):
                yield f"{file} belongs to no exercise and is not used"
            continue
        try:
            if names := ", ".join(changed(path, file, wanted)):
                yield f"{file}: {names} is not asked for; the package's is used"
        except Unusable as error:  # a file of another exercise
            yield f"{error}"


def same_text(path: Path, file: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == reference(file)
    except (OSError, UnicodeDecodeError):
        return False


def changed(path: Path, file: str, functions: set[str]) -> list[str]:
    """What both files define, differently, though no exercise asks for it."""
    theirs = definitions(parsed(path)[1])
    given = definitions(ast.parse(reference(file)))
    return [
        name
        for name, node in given.items()
        if name in theirs
        and f"{file}:{name}" not in functions
        and not isinstance(node, ast.ClassDef)  # its members follow
        and ast.dump(node) != ast.dump(theirs[name])
    ]


# ----------------------------------------------------------------------- syntax trees


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
        where = f"{path}, line {error.lineno}" if error.lineno else f"{path}"
        line = f": {(error.text or '').strip():.80}" if error.text else ""
        raise Unusable(f"{where}: {error.msg}{line}") from error
    except (ValueError, MemoryError, RecursionError) as error:  # a null byte; too deep
        why = str(error) or "it is nested too deeply"
        raise Unusable(f"{path}: {why}") from error


def definitions(tree: ast.Module) -> dict[str, ast.stmt]:
    """What a module defines, by name; members as Class.name. The last counts."""
    return dict(members(tree))


def members(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """All of a module's definitions, also those that a later one replaces."""
    for node in tree.body:
        yield from ((name, node) for name in names_of(node))
        if isinstance(node, ast.ClassDef):
            for one in node.body:
                yield from ((f"{node.name}.{name}", one) for name in names_of(one))


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


def is_text(node: ast.stmt) -> bool:
    """Whether a statement is only a string, as a docstring is."""
    value = getattr(node, "value", None) if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)

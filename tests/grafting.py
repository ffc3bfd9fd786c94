"""A learner's functions inside a copy of the reference: what `--impl` tests run on.

`graft` imports the whole package afresh and, as soon as a module of it is there, puts
the learner's graded functions in the place of its own. So everything they call is the
reference's, and everything in the copy that calls them calls the learner's. The tests'
own oracles and models import the untouched package and are out of the learner's reach.
"""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

PACKAGE = "minispec"


class Call(NamedTuple):
    """What went into a graded function, and what came out."""

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    lengths: tuple[int | None, ...]  # of caches among the arguments, at the call
    result: Any


class UnusableFile(Exception):
    """A learner's file that cannot be graded, and why."""


def import_all(package: str = PACKAGE) -> ModuleType:
    """The package with every submodule imported."""
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, f"{package}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return root


def graft(
    folder: Path, wanted: dict[str, list[str]], calls: dict[str, Call]
) -> ModuleType:
    """A copy of the package with the `wanted` functions {file: names} of the folder.

    The last call of each is kept in `calls`. Raises UnusableFile.
    """
    with fresh_import(Grafter(folder, wanted, calls)):
        return import_all()


@contextmanager
def fresh_import(finder: MetaPathFinder) -> Iterator[None]:
    """Inside, the package is imported anew and by `finder`; then all is as before."""
    kept = forget_package()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        forget_package()
        sys.modules.update(kept)


def forget_package() -> dict[str, ModuleType]:
    """Take every module of the package out of sys.modules."""
    names = [name for name in sys.modules if name.split(".")[0] == PACKAGE]
    return {name: sys.modules.pop(name) for name in names}


class Grafter(MetaPathFinder):
    """Finds the reference's modules and grafts onto them what is wanted."""

    def __init__(
        self, folder: Path, wanted: dict[str, list[str]], calls: dict[str, Call]
    ) -> None:
        self.folder, self.wanted, self.calls = folder, wanted, calls

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        file = "/".join(name.split(".")[1:]) + ".py"
        if not name.startswith(f"{PACKAGE}.") or file not in self.wanted:
            return None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None and spec.origin is not None
        graft_onto = functools.partial(
            put_in, self.path_of(file), self.wanted[file], self.calls
        )
        spec.loader = GraftingLoader(name, spec.origin, graft_onto)
        return spec

    def path_of(self, file: str) -> Path:
        """Where the functions for this file of the package are."""
        return self.folder / file


class GraftingLoader(SourceFileLoader):
    """Runs the reference's module, then grafts."""

    def __init__(
        self, name: str, path: str, graft_onto: Callable[[ModuleType], None]
    ) -> None:
        super().__init__(name, path)
        self.graft_onto = graft_onto

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        self.graft_onto(module)


def put_in(
    path: Path, names: list[str], calls: dict[str, Call], module: ModuleType
) -> None:
    """Run the learner's functions inside the module, and put them in their places."""
    before = dict(vars(module))
    reference = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    body = learners_part(parse(path), names, defined(reference))
    try:
        code = compile(ast.Module(body, []), str(path), "exec", dont_inherit=True)
        exec(code, vars(module))
    except Exception as error:
        raise UnusableFile(f"{path.name} does not run: {error!r}") from error
    for name in names:
        if name not in defined(ast.Module(body, [])):
            raise UnusableFile(f"{path.name} has no function {name}")
        if "." not in name:
            setattr(module, name, recorded(name, vars(module)[name], calls))
    for place in {name.rpartition(".")[0] for name in names} - {""}:
        learners, owner = vars(module)[place], before[place]
        setattr(module, place, owner)
        for attribute, value in vars(learners).items():
            if isinstance(value, FUNCTIONS):
                name = f"{place}.{attribute}"
                new = recorded(name, value, calls) if name in names else value
                setattr(owner, attribute, new)


FUNCTIONS = (type(lambda: 0), staticmethod, classmethod, property)


def parse(path: Path) -> ast.Module:
    """The learner's file. Raises UnusableFile where there is none, or no Python."""
    try:
        return ast.parse(path.read_text(encoding="utf-8-sig"), str(path))
    except FileNotFoundError as error:
        raise UnusableFile(
            f"{path} is missing: python scripts/start_exercises.py DIR makes it"
        ) from error
    except OSError as error:
        raise UnusableFile(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UnusableFile(
            f"{path.name} is not UTF-8 (byte {error.start + 1}): save it as UTF-8"
        ) from error
    except SyntaxError as error:
        raise UnusableFile(
            f"{path.name}, line {error.lineno}: {error.msg}: {error.text or ''}".strip()
        ) from error
    except ValueError as error:  # a null byte, until Python 3.12
        raise UnusableFile(f"{path.name}: {error}") from error


def defined(tree: ast.Module) -> set[str]:
    """Names that the module defines at its top, and methods as Class.method."""
    names: set[str] = set()
    for node in tree.body:
        names.update(names_of(node))
        if isinstance(node, ast.ClassDef):
            methods = [name for one in node.body for name in names_of(one)]
            names.update(f"{node.name}.{method}" for method in methods)
    return names


def names_of(node: ast.stmt) -> list[str]:
    """The names that a statement binds."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, ast.Assign):
        targets = [one for target in node.targets for one in ast.walk(target)]
        return [
            one.id
            for one in targets
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        ]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


def binding(tree: ast.Module, name: str) -> list[ast.stmt]:
    """The statements that bind this name, or this Class.method, in order."""
    place, _, last = name.rpartition(".")
    body: list[ast.stmt] = tree.body
    if place:
        classes = [one for one in body if isinstance(one, ast.ClassDef)]
        body = [node for one in classes if one.name == place for node in one.body]
    return [node for node in body if last in names_of(node)]


def learners_part(
    tree: ast.Module, names: list[str], reference: set[str]
) -> list[ast.stmt]:
    """The graded functions, and every statement that binds no name of the reference."""
    part: list[ast.stmt] = []
    for node in tree.body:
        bound = names_of(node)
        if isinstance(node, ast.ClassDef) and node.name in reference:
            methods = [
                one
                for one in node.body
                if isinstance(one, ast.FunctionDef)
                and (
                    f"{node.name}.{one.name}" in names
                    or f"{node.name}.{one.name}" not in reference
                )
            ]
            if any(f"{node.name}.{one.name}" in names for one in methods):
                part.append(bare_class(node, methods))
        elif not bound or any(n in names or n not in reference for n in bound):
            part.append(node)
    return part


def bare_class(node: ast.ClassDef, methods: list[ast.FunctionDef]) -> ast.ClassDef:
    """A class of these methods and nothing else, under the same name."""
    bare = ast.parse(f"class {node.name}: pass").body[0]
    assert isinstance(bare, ast.ClassDef)
    bare.body = list(methods)
    return ast.copy_location(bare, node)


def recorded(name: str, function: Any, calls: dict[str, Call]) -> Any:
    """The function, keeping its last call for a failure to show."""
    if not isinstance(function, type(lambda: 0)):
        return function

    @functools.wraps(function)
    def spied(*arguments: Any, **keywords: Any) -> Any:
        lengths = tuple(getattr(value, "length", None) for value in arguments)
        calls[name] = Call(name, arguments, keywords, lengths, "an error")
        result = function(*arguments, **keywords)
        calls[name] = calls[name]._replace(result=result)
        return result

    return spied

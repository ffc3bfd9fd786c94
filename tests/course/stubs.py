"""Stubs: the package's files with the bodies of the graded functions taken out."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from course.catalogue import FUNCTIONS
from course.learners import definitions, first_line, members, parsed
from course.overlay import reference


def stub(file: str) -> str:
    """The package's file with the body of every graded function taken out."""
    lines = reference(file).splitlines()
    found = definitions(ast.parse(reference(file)))
    graded = [one.split(":")[1] for one in FUNCTIONS if one.startswith(f"{file}:")]
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
        number = FUNCTIONS[f"{file}:{name}"]
        says = f"exercise {number} is not written: try exercises.py run"
        error = f'raise NotImplementedError("{says}")'
        lines[begin : function.end_lineno] = [" " * first.col_offset + error]
    return "\n".join(lines) + "\n"


def piece(text: str, name: str) -> list[str]:
    """The lines of one function of a module."""
    node = definitions(ast.parse(text))[name]
    return text.splitlines()[first_line(node) - 1 : node.end_lineno]


def emptied(path: Path, file: str, names: Iterable[str]) -> str:
    """The learner's file with the stubs of these functions, wherever they stand.

    Raises Unusable.
    """
    text, tree = parsed(path)
    lines, wanted = text.splitlines(), {*names}
    for name, node in sorted(members(tree), key=lambda one: -one[1].lineno):
        if name in wanted:
            lines[first_line(node) - 1 : node.end_lineno] = piece(stub(file), name)
    return "\n".join(lines) + "\n"

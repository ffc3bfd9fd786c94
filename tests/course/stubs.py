"""Stubs: the package's files with the bodies of the graded functions taken out."""

from __future__ import annotations

import ast
from textwrap import dedent, indent

from course.catalogue import FUNCTIONS
from course.learners import definitions, first_line, members
from course.overlay import reference


def stub(file: str) -> str:
    """The package's file with the body of every graded function taken out."""
    lines = reference(file).split("\n")
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
    return "\n".join(lines)


def piece(text: str, name: str) -> list[str]:
    """The lines of one function of a module. Lines as Python counts them."""
    node = definitions(ast.parse(text))[name]
    return text.split("\n")[first_line(node) - 1 : node.end_lineno]


def emptied(text: str, file: str, name: str) -> str:
    """A learner's file with the stub of this function: in its place, or at the end.

    Raises SyntaxError where the file has one.
    """
    lines, tree = text.split("\n"), ast.parse(text)

    def margin(node: ast.stmt) -> str:
        return lines[node.lineno - 1][: node.col_offset]

    outer = name.rpartition(".")[0]
    owner = definitions(tree).get(outer)
    found = [one for key, one in members(tree) if key == name]
    if found and not any(margin(one).strip() for one in found):
        places = [
            (first_line(one) - 1, one.end_lineno or 0, margin(one)) for one in found
        ]
    elif isinstance(owner, ast.ClassDef) and not margin(owner.body[-1]).strip():
        places = [(end := owner.end_lineno or 0, end, margin(owner.body[-1]))]
    else:
        name = outer or name
        places = [(len(lines), len(lines), "")]
    new = dedent("\n".join(piece(stub(file), name)))
    for begin, end, blanks in sorted(places, reverse=True):
        lines[begin:end] = indent(new, blanks).split("\n")
    return "\n".join(lines)

#!/usr/bin/env python3
"""Run the notebooks' sources and keep what they print and draw.

Makes notebooks/NN_name.ipynb from notebooks/NN_name.py (jupytext's percent format):
every cell is run, outputs and pictures are kept, and nothing is stored that would
differ between two machines but the outputs themselves. A cell that raises stops the
build. Needs the extra `notebooks`: pip install -e ".[notebooks]"

  python scripts/build_notebooks.py                 all of them, some minutes
  python scripts/build_notebooks.py 03 05           only these
  python scripts/build_notebooks.py --dry-run       run, but write nothing
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

from minispec.commands.ending import Parser, ended
from minispec.files.whole import check_writable, replacing

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
NEEDED = "jupytext", "nbclient", "nbformat", "ipykernel", "matplotlib"
CELL_TIMEOUT = 600  # seconds; a busy machine may take long


def sources(wanted: list[str]) -> list[Path]:
    """The sources whose names begin with one of `wanted`; all if that is empty.

    Raises ValueError for a beginning that fits none.
    """
    found = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.py"))
    for start in wanted:
        if not any(path.name.startswith(start) for path in found):
            raise ValueError(
                f"no notebook begins with {start[:40]!r}: give the start of one of "
                f"{', '.join(path.name for path in found)}"
            )
    return [path for path in found if path.name.startswith(tuple(wanted) or "")]


def build(source: Path) -> Any:
    """The executed notebook of a source. Raises CellExecutionError if a cell does."""
    import jupytext
    from nbclient import NotebookClient

    notebook = jupytext.read(source, fmt="py:percent")
    notebook.metadata = {"kernelspec": KERNEL}
    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        kernel_name=KERNEL["name"],
        record_timing=False,  # no times of day in the file
        coalesce_streams=True,  # how prints were cut into messages is chance
        resources={"metadata": {"path": str(NOTEBOOKS)}},
    )
    paths = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])  # this checkout
    client.execute(env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    return tidy(notebook)


def tidy(notebook: Any) -> Any:
    """The same without what differs from run to run: ids, versions, object addresses.

    Raises ValueError where an output names this machine's folders.
    """
    notebook.metadata = {
        "kernelspec": KERNEL,
        "language_info": {"file_extension": ".py", "name": "python"},
    }
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number:02}", {}
        for output in cell.get("outputs", []):
            tidy_output(output)
        if str(ROOT) in str(cell.get("outputs")):
            raise ValueError(f"cell {number} prints a path of this machine")
    return notebook


def tidy_output(output: Any) -> None:
    """A picture without its text `<Figure size ...>`, and no metadata of its own."""
    if output.output_type in ("display_data", "execute_result"):
        output.metadata = {}
        if "image/png" in output.data:
            output.data = {"image/png": output.data["image/png"]}


def main(argv: list[str] | None = None) -> int:
    """Build one after another; 0 when done, 1 at the first cell that fails."""
    parser = Parser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="beginnings of names, like 03")
    parser.add_argument("--dry-run", action="store_true", help="run, but write nothing")
    args = parser.parse_args(argv)
    chosen = sources(args.names)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        names = ", ".join(missing)
        raise ImportError(f"{names} not installed: pip install -e '.[notebooks]'")
    import nbformat
    from nbclient.exceptions import CellExecutionError

    for source in chosen:
        began, made = time.perf_counter(), source.with_suffix(".ipynb")
        if not args.dry_run:
            check_writable(made)
        try:
            notebook = build(source)
        except (CellExecutionError, ValueError) as error:
            print(f"build_notebooks: {source.name}: {error}", file=sys.stderr)
            return 1
        if not args.dry_run:
            with replacing(made) as part:
                part.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        print(f"{source.name}: {time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))

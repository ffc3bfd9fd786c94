#!/usr/bin/env python3
"""Run the notebooks' sources and keep what they print and draw."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Any

from ending import ended, status_of

DESCRIPTION = """\
Make notebooks/NN_name.ipynb from notebooks/NN_name.py (jupytext's percent format):
every cell is run, outputs and pictures are kept, and nothing is stored that would
differ between two machines but the outputs themselves. A cell that raises stops the
build.

Needs the extra `notebooks`: pip install -e ".[notebooks]"
"""
EXAMPLES = """\
examples:
  python scripts/build_notebooks.py                 all of them, some minutes
  python scripts/build_notebooks.py 03 05           only these
  python scripts/build_notebooks.py --dry-run       run, but write nothing
"""
ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = ROOT / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
CELL_TIMEOUT = 600  # seconds; a busy machine may take long


def sources(wanted: list[str]) -> list[Path]:
    """The sources whose names begin with one of `wanted`; all if that is empty.

    Raises ValueError for a beginning that fits none.
    """
    found = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.py"))
    names = [path.name for path in found]
    for start in wanted:
        if not any(name.startswith(start) for name in names):
            raise ValueError(
                f"no notebook begins with {start!r}: give the start of one of "
                f"{', '.join(names)}"
            )
    starts = tuple(wanted) or ("",)
    return [path for path in found if path.name.startswith(starts)]


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
    client.execute(env=environment())
    return tidy(notebook)


def environment() -> dict[str, str]:
    """The kernel's: with this checkout to import from, installed or not."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


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
        if cell.cell_type == "code":
            cell.outputs = [tidy_output(output) for output in cell.outputs]
            if str(ROOT) in str(cell.outputs):
                raise ValueError(f"cell {number} prints a path of this machine")
    return notebook


def tidy_output(output: Any) -> Any:
    """A picture without its text `<Figure size ...>`, and no metadata of its own."""
    if output.output_type in ("display_data", "execute_result"):
        output.metadata = {}
        if "image/png" in output.data:
            output.data = {"image/png": output.data["image/png"]}
    return output


def require_packages() -> None:
    """ImportError, with what to do, unless all that a build needs is there."""
    needed = "jupytext", "nbclient", "nbformat", "ipykernel", "matplotlib"
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f"{', '.join(missing)} not installed: pip install -e '.[notebooks]'"
        )


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("names", nargs="*", help="beginnings of names, like 03")
    made.add_argument("--dry-run", action="store_true", help="run, but write nothing")
    return made


def main(argv: list[str] | None = None) -> int:
    """0 when done, 1 if a cell failed, 2 if it could not start."""
    args = parser().parse_args(argv)
    return status_of("build_notebooks", lambda: build_all(args))


def build_all(args: argparse.Namespace) -> int:
    """One after another; 1 at the first cell that fails."""
    chosen = sources(args.names)
    require_packages()
    import nbformat
    from nbclient.exceptions import CellExecutionError

    for source in chosen:
        began = time.perf_counter()
        try:
            notebook = build(source)
        except (CellExecutionError, ValueError) as error:
            print(f"build_notebooks: {source.name}: {error}", file=sys.stderr)
            return 1
        if not args.dry_run:
            nbformat.write(notebook, source.with_suffix(".ipynb"))
        print(f"{source.name}: {time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))

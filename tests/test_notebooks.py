"""The notebooks: each is its source, executed; and (slow) each still runs.

pytest tests/test_notebooks.py            the files agree
pytest tests/test_notebooks.py --slow     and every cell runs
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.py"))
MOST_BYTES = 3_000_000  # all of them together

each = pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)


def cells_of(source: Path) -> list[tuple[str, str]]:
    """(type, text) of each cell in percent format."""
    cells = []
    text = source.read_text(encoding="utf-8")
    for part in re.split(r"^# %%", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        body = body.strip("\n")
        if head.strip() == "[markdown]":
            cells.append(("markdown", re.sub(r"^# ?", "", body, flags=re.MULTILINE)))
        else:
            assert not head.strip(), f"unknown cell type: {head}"
            cells.append(("code", body))
    return cells


def executed(source: Path) -> dict[str, Any]:
    return json.loads(source.with_suffix(".ipynb").read_text(encoding="utf-8"))


def test_every_notebook_has_a_source_and_all_are_small() -> None:
    folder = ROOT / "notebooks"
    built = sorted(path.stem for path in folder.glob("*.ipynb"))
    assert built == [path.stem for path in SOURCES] != []
    sizes = [path.stat().st_size for path in folder.iterdir() if path.is_file()]
    assert sum(sizes) < MOST_BYTES


@each
def test_holds_the_cells_of_its_source(source: Path) -> None:
    cells = executed(source)["cells"]
    found = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    rebuild = f"run scripts/build_notebooks.py {source.stem[:2]}"
    assert found == cells_of(source), rebuild


@each
def test_ran_in_order_without_errors_or_traces_of_a_machine(source: Path) -> None:
    notebook = executed(source)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    kinds = {output.get("name", output["output_type"]) for output in outputs}
    assert kinds == {"stdout", "display_data"}  # no error, no stderr
    assert notebook["metadata"].keys() <= {"kernelspec", "language_info"}
    assert all(cell["metadata"] == {} for cell in notebook["cells"])
    assert not re.search(r"/(home|root|tmp|Users)/", json.dumps(notebook))


@each
def test_has_the_form_of_a_lesson(source: Path) -> None:
    prose = [text for kind, text in cells_of(source) if kind == "markdown"]
    whole, number = "\n".join(prose), int(source.name[:2])
    assert prose[0].startswith(f"# {number}. ")
    assert "able to explain" in " ".join(prose[0].split())
    assert "## Half-truth" in whole and whole.count("**Predict, then run:**") >= 2
    assert "## Questions" in prose[-1] and "**Exercises**" in prose[-1]
    figures = re.findall(r"^\*\*Figure (\d+)\.(\d+)\.\*\*", whole, flags=re.MULTILINE)
    code = "\n".join(text for kind, text in cells_of(source) if kind == "code")
    n_drawn = len(re.findall(r"\baxes\(|^slots\(", code, flags=re.MULTILINE))
    assert figures == [(str(number), str(i + 1)) for i in range(n_drawn)]


@pytest.mark.slow
@each
def test_runs_from_top_to_bottom_in_any_working_directory(
    source: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `notebooks`")
    environment = {**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    with source.open(encoding="utf-8") as cells:
        run = subprocess.run(
            [sys.executable, "-"],
            stdin=cells,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert run.returncode == 0, run.stderr[-2000:]

"""The notebooks: each is its source, executed; and (slow) each still runs.

    pytest tests/test_notebooks.py            the files agree
    pytest tests/test_notebooks.py --slow     and every cell runs
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from script_loader import load_script

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
SOURCES = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.py"))
MOST_BYTES = 3_000_000  # all of them together
ALLOWED_KEYS = {"kernelspec", "language_info"}

each = pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)


def cells_of_source(text: str) -> list[tuple[str, str]]:
    """(type, source) of each cell in percent format."""
    cells = []
    for part in re.split(r"^# %%", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        body = body.strip("\n")
        if head.strip() == "[markdown]":
            lines = [re.sub(r"^# ?", "", line) for line in body.split("\n")]
            cells.append(("markdown", "\n".join(lines)))
        else:
            assert not head.strip(), f"unknown cell type: {head}"
            cells.append(("code", body))
    return cells


def executed(source: Path) -> dict[str, Any]:
    return json.loads(source.with_suffix(".ipynb").read_text(encoding="utf-8"))


def text_of(lines: str | list[str]) -> str:
    return lines if isinstance(lines, str) else "".join(lines)


def test_there_are_notebooks_and_none_without_a_source() -> None:
    assert SOURCES
    built = sorted(NOTEBOOKS.glob("*.ipynb"))
    assert [path.stem for path in built] == [path.stem for path in SOURCES]


@each
def test_comes_from_its_source_as_it_stands(source: Path) -> None:
    found = [
        (cell["cell_type"], text_of(cell["source"]))
        for cell in executed(source)["cells"]
    ]
    rebuild = f"run scripts/build_notebooks.py {source.stem[:2]}"
    assert found == cells_of_source(source.read_text(encoding="utf-8")), rebuild


@each
def test_every_code_cell_was_run_in_order_and_none_failed(source: Path) -> None:
    code = [c for c in executed(source)["cells"] if c["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)


@each
def test_stores_nothing_of_the_machine_it_was_built_on(source: Path) -> None:
    notebook = executed(source)
    assert notebook["metadata"].keys() <= ALLOWED_KEYS
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert all(cell["metadata"] == {} for cell in notebook["cells"])
    assert not re.search(r"/(home|root|tmp|Users)/", json.dumps(notebook))


@each
def test_says_what_it_teaches_and_ends_with_questions(source: Path) -> None:
    cells = cells_of_source(source.read_text(encoding="utf-8"))
    prose = [text for kind, text in cells if kind == "markdown"]
    number = int(source.name[:2])
    assert prose[0].startswith(f"# {number}. ")
    assert "able to explain" in " ".join(prose[0].split())
    assert "## Half-truth" in "".join(prose)
    assert "## Questions" in prose[-1] and "**Exercises**" in prose[-1]
    figures = re.findall(r"\*\*Figure (\d)\.(\d)\.\*\*", "".join(prose))
    drawn = sum(len(re.findall(r"\baxes\(|\bslots\(", text)) for _, text in cells)
    assert figures == [(str(number), str(i + 1)) for i in range(drawn)]


def test_all_of_them_are_small() -> None:
    assert sum(path.stat().st_size for path in NOTEBOOKS.iterdir()) < MOST_BYTES


def test_the_builder_finds_them_by_the_start_of_their_names() -> None:
    builder = load_script("build_notebooks")
    assert builder.sources([]) == SOURCES
    assert builder.sources(["01"]) == SOURCES[:1]
    with pytest.raises(ValueError, match="no notebook begins with '99'"):
        builder.sources(["01", "99"])


@pytest.mark.slow
@each
def test_runs_from_top_to_bottom(source: Path) -> None:
    pytest.importorskip("jupytext", reason="needs the extra `notebooks`")
    pytest.importorskip("nbclient", reason="needs the extra `notebooks`")
    pytest.importorskip("ipykernel", reason="needs the extra `notebooks`")
    pytest.importorskip("matplotlib", reason="needs the extra `notebooks`")
    notebook = load_script("build_notebooks").build(source)
    prose = [cell.source for cell in notebook.cells]
    wanted = cells_of_source(source.read_text(encoding="utf-8"))
    assert prose == [text for _, text in wanted]

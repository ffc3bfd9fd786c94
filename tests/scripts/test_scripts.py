"""Every script: bad input is one line and status 2, and files are written whole."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from support.script_loader import SCRIPTS, load_script

# What each is rejected: bad input, or a path that cannot be written, before the work.
REJECTED = {
    "benchmark": ["--json", "."],
    "build_notebooks": ["no-such-notebook"],
    "download_weights": ["no-such-model"],
    "draw_rounds": ["--out", "no-such-folder/a.svg"],
    "learn_bpe": [str(SCRIPTS / "learn_bpe.py"), "no-such-folder/out.tiktoken"],
    "measure_loading": ["--shape", "tiny", "--dir", "no-such-folder"],
    "prepare_corpus": ["no-such-folder"],
    "train_pair": ["no-such-folder"],
}
WORK = {  # the function that does it
    "benchmark": "load_pair",
    "draw_rounds": "load_pair",
    "learn_bpe": "learn_bpe",
}
COUNTS = [
    ("benchmark", ["--gammas", "4,0"]),
    ("benchmark", ["--tokens", "x"]),
    ("draw_rounds", ["--gamma", "0"]),
    ("measure_loading", ["--repeats", "0"]),
    ("train_pair", ["corpus", "--hurry", "0"]),
]


@pytest.mark.parametrize("name", REJECTED)
def test_bad_input_is_one_line_and_status_2(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    script = load_script(name)
    if name in WORK:
        monkeypatch.setattr(script, WORK[name], lambda *_: pytest.fail("it worked"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    assert script.ended(lambda: script.main(REJECTED[name])) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{name}.py: ") and error.count("\n") == 1


@pytest.mark.parametrize("name, argv", COUNTS)
def test_what_counts_something_is_1_or_more(
    name: str, argv: list[str], capsys: Any
) -> None:
    with pytest.raises(SystemExit, match="2"):
        load_script(name).main(argv)
    assert "expected a whole number, 1 or more" in capsys.readouterr().err


@pytest.mark.parametrize("name", REJECTED)
def test_every_script_ends_alike_writes_whole_files_and_teaches(name: str) -> None:
    """`ended` knows of closed pipes, full disks and Ctrl-C."""
    script = load_script(name)
    source = SCRIPTS.joinpath(f"{name}.py").read_text(encoding="utf-8")
    assert source.endswith('if __name__ == "__main__":\n    sys.exit(ended(main))\n')
    assert ".write_" not in source or "with replacing(" in source
    assert f"python scripts/{name}.py" in str(script.__doc__)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each, not only those that are imported first."""
    script = load_script("build_notebooks")
    find = script.importlib.util.find_spec
    monkeypatch.setattr(
        script.importlib.util,
        "find_spec",
        lambda name: None if name == "jupytext" else find(name),
    )
    with pytest.raises(ImportError, match="jupytext.* not installed: pip install"):
        script.main(["--dry-run", "01"])


def test_threads_have_one_owner() -> None:
    """It was a segmentation fault; OMP_NUM_THREADS and `settle_threads` decide."""
    with pytest.raises(SystemExit, match="2"):
        load_script("train_pair").main(["corpus", "--threads", "9999999"])

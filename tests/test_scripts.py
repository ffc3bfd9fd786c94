"""Every script that is run: bad input is one line and status 2, Ctrl-C is 130."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from script_loader import SCRIPTS, load_script

ending = load_script("ending")
NAMES = (
    "benchmark build_notebooks draw_rounds learn_bpe measure_loading prepare_corpus "
    "train_pair"
).split()
REFUSED = {
    "benchmark": ["--json", "."],
    "build_notebooks": ["no-such-notebook"],
    "draw_rounds": ["--rounds", "1", "--out", "no-such-folder/a.svg"],
    "learn_bpe": ["no-such-file", "out"],
    "measure_loading": ["--shape", "tiny", "--dir", "no-such-folder"],
    "prepare_corpus": ["no-such-folder"],
    "train_pair": ["no-such-folder"],
}
LIMITS = [
    ("draw_rounds", ["--gamma", "0"]),
    ("draw_rounds", ["--rounds", "0"]),
    ("measure_loading", ["--repeats", "0"]),
    ("train_pair", ["corpus", "--hurry", "0"]),
    ("train_pair", ["corpus", "--threads", "0"]),
]
Output = pytest.CaptureFixture[str]


@pytest.mark.parametrize("name", NAMES)
def test_bad_input_is_one_line_and_status_2(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    script = load_script(name)
    monkeypatch.chdir(tmp_path)
    assert script.main(REFUSED[name]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"{name}: ") and err.count("\n") == 1


def test_every_script_ends_alike() -> None:
    """By `ended`, which knows of closed pipes and full disks."""
    for path in SCRIPTS.glob("*.py"):
        _, starts, rest = path.read_text(encoding="utf-8").partition("if __name__ ==")
        assert not starts or rest == ' "__main__":\n    sys.exit(ended(main))\n', path


# They write before torch is imported, if it is at all.
LIGHT = [
    ("start_exercises", "--list"),
    ("mutants", "--list"),
    ("download_weights", "--list"),
]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("name, option", LIGHT)
def test_a_reader_that_has_gone_and_a_full_disk_are_no_traceback(
    name: str, option: str, unbuffered: str
) -> None:
    def status_and_words(stdout: Any) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, SCRIPTS / f"{name}.py", option],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )
        return done.returncode, done.stderr

    reads, writes = os.pipe()
    os.close(reads)
    assert status_and_words(writes) == (0, "")
    os.close(writes)
    if Path("/dev/full").exists():
        with open("/dev/full", "w") as full:
            status, words = status_and_words(full)
        assert status == 2 and words.count("\n") == 1 and "No space left" in words


@pytest.mark.parametrize("name, argv", LIMITS)
def test_what_counts_something_is_1_or_more(
    name: str, argv: list[str], capsys: Output
) -> None:
    with pytest.raises(SystemExit) as stop:
        load_script(name).main(argv)
    assert stop.value.code == 2
    assert "expected 1 or more, got '0'" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_ctrl_c_is_130_wherever_it_comes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Pressed in the first thing that each does after reading its arguments."""
    first = {
        "benchmark": "prepare",
        "build_notebooks": "sources",
        "draw_rounds": "load_pair",
        "learn_bpe": "read_text",
        "measure_loading": "measure",
        "prepare_corpus": "corpus",
        "train_pair": "job_of",
    }
    more = {"learn_bpe": ["a", "b"], "prepare_corpus": ["a"], "train_pair": ["a"]}
    script = load_script(name)

    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(script, first[name], pressed)
    assert script.main(more.get(name, [])) == 130
    assert capsys.readouterr().err == f"{name}: stopped\n"


def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Each, not only those that are imported first."""
    script = load_script("build_notebooks")
    find = script.importlib.util.find_spec
    monkeypatch.setattr(
        script.importlib.util,
        "find_spec",
        lambda name, *more: None if name == "jupytext" else find(name, *more),
    )
    assert script.main(["--dry-run", "01"]) == 2
    err = capsys.readouterr().err
    assert "jupytext" in err and "pip install" in err and err.count("\n") == 1


def test_what_is_interrupted_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "texts.npy"
    with pytest.raises(KeyboardInterrupt), ending.written_whole(path) as part:
        part.write_bytes(b"half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    with ending.written_whole(path) as part:
        np.save(part, np.arange(3))
    assert [*tmp_path.iterdir()] == [path] and np.load(path).tolist() == [0, 1, 2]


def test_a_vocabulary_half_written_is_learned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the write must not leave a file that the next run takes for whole."""
    script = load_script("train_pair")
    (tmp_path / "train.txt").write_text("to be or not to be", encoding="utf-8")
    job = script.Job(tmp_path, tmp_path, tmp_path, script.TARGET, 1)

    def half(ranks: object, path: Path) -> None:
        path.write_bytes(b"AA== 0\n")
        raise KeyboardInterrupt

    monkeypatch.setattr(script, "VOCAB_SIZE", 258)
    monkeypatch.setattr(script, "write_tiktoken", half)
    with pytest.raises(KeyboardInterrupt):
        job.tokenizer
    assert not (tmp_path / "tokenizer.tiktoken").exists()


def test_a_trial_in_a_hurry_is_kept_apart(tmp_path: Path) -> None:
    """Or the real job would go on from its few steps, and learn from its few texts."""
    script = load_script("train_pair")
    (tmp_path / "train.txt").touch()
    (tmp_path / "held_out").mkdir()
    threads = str(torch.get_num_threads())  # of the whole process: leave it
    argv = [str(tmp_path), "--work", str(tmp_path / "work"), "--threads", threads]
    works = {
        hurry: script.job_of(script.parse_args([*argv, "--hurry", hurry])).work
        for hurry in ("1", "20", "30")
    }
    assert works["1"] == tmp_path / "work" and len({*works.values()}) == 3
    with pytest.raises(ValueError, match="no step"):
        script.job_of(script.parse_args([*argv, "--hurry", "9999"]))

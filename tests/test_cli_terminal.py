"""Terminals, pipes and Ctrl-C: what is shown where, and how a run ends early."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from minispec.cli import load_commands, main
from minispec.commands import streaming

from tiny_pairs import chain_folder, random_folder

Output = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[1]
# A background job's SIGINT may be ignored, which a child would inherit.
PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from minispec.cli import main; sys.exit(main())"
)
load_commands()  # before one is patched: what they import then would stay for good

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options that name two models; a context long enough to be interrupted."""
    folders = [tmp_path_factory.mktemp(name) for name in ("target", "draft")]
    for seed, folder in enumerate(folders):
        random_folder(folder, seed, n_positions=30_000)
    return ["--target", str(folders[0]), "--draft", str(folders[1])]


def start(*argv: str, **streams: object) -> "subprocess.Popen[bytes]":
    """The program in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(  # type: ignore[call-overload]
        [sys.executable, "-c", PROGRAM, *argv], env=environment, **streams
    )


# ---------------------------------------------------------------------------- Ctrl-C


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Press Ctrl-C once so many steps and rounds, of whatever decode, are done."""

    def after(n: int) -> None:
        steps_of, done = streaming.steps_of, []

        def interrupted(*args: object) -> object:
            for step in steps_of(*args):  # type: ignore[arg-type]
                yield step
                done.append(step)
                if len(done) == n:
                    raise KeyboardInterrupt

        monkeypatch.setattr(streaming, "steps_of", interrupted)

    return after


def test_interrupted_generate_keeps_and_accounts_for_what_was_written(
    interrupt: Callable[[int], None], tmp_path: Path, capsys: Output
) -> None:
    model = str(chain_folder(tmp_path, b"abcdef"))
    interrupt(2)
    settings = ["--gamma", "2", "--temperature", "0", "--prompt", "a", "--trace"]
    assert main(["generate", "--target", model, "--draft", model, *settings]) == 130
    out, err = capsys.readouterr()
    assert out.startswith("abcdefa\nround 1:") and "round 3" not in out
    assert "6 tokens" in err and err.endswith("ended: interrupted\n")


@pytest.mark.parametrize(
    "steps, says",
    [
        (5, "the target alone wrote 5 tokens"),
        (8, "speculative wrote"),
        (40, "finished of each"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_interrupted_compare_reports_what_is_complete_or_says_that_nothing_is(
    pair: list[str],
    interrupt: Callable[[int], None],
    capsys: Output,
    steps: int,
    says: str,
    more: list[str],
) -> None:
    interrupt(steps)
    assert main([*pair, "--tokens", "6", "--repeats", "9", *more]) == 130
    out, err = capsys.readouterr()
    assert says in err and "interrupted: " in err
    complete = steps == 40
    if more:
        assert bool(out) == complete
        assert not out or json.loads(out)["repeats"] >= 1
    else:
        assert ("speed-up" in out) == complete
        assert "next: " in out.splitlines()[-1] or not complete


def test_interrupted_before_anything(
    pair: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("minispec.commands.compare.warm_up", interrupted)
    assert main([*pair, "--json"]) == 130
    out, err = capsys.readouterr()
    assert out == "" and "nothing was written yet; nothing to compare" in err
    monkeypatch.setattr("minispec.commands.generate.request_from", interrupted)
    assert main(["generate", *pair]) == 130
    assert capsys.readouterr() == ("", "")


@posix_only
def test_a_real_interrupt(pair: list[str]) -> None:
    """Sent while the text streams, as seen from outside."""
    settings = ["--prompt", "xyz", "--tokens", "29000"]
    process = start(
        "generate", *pair, *settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    first = process.stdout.read(16)  # more than the prompt: decoding has begun
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert first.startswith(b"xyz") and rest.endswith(b"\n")
    assert err.count(b"\n") == 1 and b"ended: interrupted" in err


# ----------------------------------------------------------------------------- pipes


@posix_only
def test_a_reader_that_leaves(pair: list[str]) -> None:
    """As with `minispec | head -c 10`: no traceback, no complaint."""
    settings = ["--tokens", "29000", "--repeats", "1"]
    process = start(*pair, *settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(timeout=120) == 0


@posix_only
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk(pair: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        process = start("plan", stdout=full, stderr=subprocess.PIPE)
        err = process.communicate(timeout=120)[1]
    assert process.returncode == 2
    assert err.count(b"\n") == 1 and b"No space left" in err
    with open("/dev/full", "wb") as full:  # nowhere to say it: the status remains
        assert start("generate", "--prompt", "", stderr=full).wait(timeout=120) == 2


def test_letters_that_the_output_cannot_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ASCII terminal shows a question mark; JSON loses nothing."""
    model = str(chain_folder(tmp_path, "é ".encode()))
    settings = ["--target", model, "--draft", model, "--prompt", " ", "--tokens", "5"]
    for command, expected in (("generate", b" ? ?"), ("compare", rb'"\u00e9 \u00e9"')):
        file = tmp_path / "out"
        with open(file, "w", encoding="ascii") as output:
            monkeypatch.setattr("sys.stdout", output)
            more = ["--json"] if command == "compare" else []
            assert main([command, *settings, "--temperature", "0", *more]) == 0
        assert expected in file.read_bytes()


def test_streams_that_are_closed(
    monkeypatch: pytest.MonkeyPatch, pair: list[str]
) -> None:
    """`minispec >&-` leaves Python without a stdout."""
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)
    assert main(["generate", *pair, "--tokens", "2"]) == 0


# ------------------------------------------------------------------------- terminals


def read_all(master: int) -> bytes:
    """Everything up to where the other side has closed, which Linux calls an error."""
    received = b""
    try:
        while piece := os.read(master, 1000):
            received += piece
    except OSError:
        pass
    return received


def on_terminal(monkeypatch: pytest.MonkeyPatch, *argv: str) -> str:
    """What a terminal receives from a command that writes little."""
    import pty

    master, slave = pty.openpty()
    try:
        with os.fdopen(slave, "w", encoding="utf-8") as terminal:
            with monkeypatch.context() as patch:
                patch.setattr("sys.stdout", terminal)
                assert main(list(argv)) == 0
        return read_all(master).decode().replace("\r\n", "\n")
    finally:
        os.close(master)


@posix_only
def test_colour_only_on_a_terminal_that_wants_it(
    pair: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    settings = [*pair, "--prompt", "x", "--tokens", "8", "--seed", "3"]
    assert main(["generate", *settings]) == 0
    plain, err = capsys.readouterr()
    assert "\x1b[3" not in plain + err
    coloured = on_terminal(monkeypatch, "generate", *settings)
    assert re.search("\x1b\\[3[126]m", coloured)
    err = capsys.readouterr().err
    assert "resampled" in err and "\x1b" not in err  # its own stream is no terminal
    for name, value in (("NO_COLOR", "1"), ("NO_COLOR", "0"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert "\x1b" not in on_terminal(patch, "generate", *settings)
    with monkeypatch.context() as patch:
        patch.setenv("NO_COLOR", "")  # empty says nothing
        assert on_terminal(patch, "generate", *settings) == coloured


@posix_only
def test_a_model_cannot_command_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    model = str(chain_folder(tmp_path, b"\x1b[2J"))
    settings = ["--target", model, "--draft", model, "--prompt", "\x1b"]
    settings += ["--tokens", "3", "--temperature", "0"]
    for drafter in ("model", "none"):
        more = ["--drafter", drafter]
        shown = on_terminal(monkeypatch, "generate", *settings, *more)
        bare = re.sub("\x1b\\[[0-9]+m", "", shown)
        assert bare == "␛[2J\n"
        capsys.readouterr()
        assert main(["generate", *settings, *more]) == 0
        assert capsys.readouterr().out == "\x1b[2J\n"  # a file gets the very text

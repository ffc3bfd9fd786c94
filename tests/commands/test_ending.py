"""How a program ends, and what a terminal, a pipe or a closed stream gets from it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from minispec.commands.cli import main
from minispec.commands.ending import ended

from support.tiny_pairs import random_folder

Output = pytest.CaptureFixture[str]
Chain = Callable[..., list[str]]
ROOT = Path(__file__).parents[2]
# A background job's SIGINT may be ignored, which a child would inherit.
PROGRAM = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from minispec.commands.cli import main; sys.exit(main())"
)
posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")


@pytest.mark.parametrize(
    "error, status, says",
    [
        (None, 0, ""),
        (ValueError("a\n\x1b b"), 2, "name: a \\x1b b\n"),
        (ImportError("install x"), 2, "name: install x\n"),
        (NotImplementedError("exercise 4"), 2, "name: exercise 4\n"),
        (OSError(28, "No space"), 2, "name: No space; check where the output goes\n"),
        (OSError(13, "Denied", "f"), 2, "name: cannot read f: Denied; check the path"),
        (MemoryError(), 2, "name: there is not enough memory: ask for fewer rows"),
        (RuntimeError("DefaultCPUAllocator: can't allocate"), 2, "name: there is not"),
        (KeyboardInterrupt(), 130, "name: interrupted\n"),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_every_ending_has_its_status_and_at_most_one_line(
    capsys: Output, error: BaseException | None, status: int, says: str
) -> None:
    def program() -> None:
        if error is not None:
            raise error

    assert ended(program, "name") == status
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(says) and err.count("\n") == bool(says)


def test_a_bug_is_not_hidden_and_a_long_message_is_shortened(capsys: Output) -> None:
    def fail(error: Exception) -> None:
        raise error

    for bug in TypeError, RuntimeError:
        with pytest.raises(bug):
            ended(lambda: fail(bug()))
    assert ended(lambda: fail(ValueError("x" * 10**6))) == 2
    assert len(capsys.readouterr().err) < 1100
    assert ended(lambda: 7) == 7


# ---------------------------------------------------------------------------- streams


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options that name two models; a context long enough to be interrupted."""
    folders = [tmp_path_factory.mktemp(name) for name in ("target", "draft")]
    for seed, folder in enumerate(folders):
        random_folder(folder, seed, n_positions=30_000)
    models = ["--target", str(folders[0]), "--draft", str(folders[1])]
    return [*models, "--tokens", "29000", "--prompt", "xyz"]


def start(*argv: str, stdout: int = subprocess.PIPE) -> "subprocess.Popen[bytes]":
    """The program in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PROGRAM, *argv]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=stdout, stderr=pipe)


@posix_only
def test_ctrl_c_ends_the_stream_of_text(long: list[str]) -> None:
    process = start("generate", *long)
    assert process.stdout is not None
    first = process.stdout.read(16)  # more than the prompt: decoding has begun
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert first.startswith(b"xyz") and rest.endswith(b"\n")
    assert err.count(b"\n") == 1 and b"; interrupted" in err


@posix_only
def test_a_reader_that_leaves_is_no_error(long: list[str]) -> None:
    """As with `minispec | head -c 10`: no traceback, no complaint."""
    process = start(*long)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=120) == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_line_and_status_2() -> None:
    with open("/dev/full", "wb") as full:
        process = start("plan", stdout=full.fileno())
        err = process.communicate(timeout=120)[1]
    assert process.returncode == 2
    assert err.count(b"\n") == 1 and b"No space left" in err


@pytest.mark.parametrize("command", ["generate", "compare --json"])
def test_an_output_may_lack_letters_or_be_closed(
    chain: Chain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """ASCII shows question marks; `minispec >&-` leaves Python without a stdout."""
    argv = [*command.split(), *chain("é "), "--prompt", " ", "--tokens", "5"]
    with open(tmp_path / "out", "w", encoding="ascii") as output:
        monkeypatch.setattr("sys.stdout", output)
        assert main(argv) == 0
    shown = (tmp_path / "out").read_text()
    assert shown.startswith(" ? ?") or r'"\u00e9 \u00e9"' in shown
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)
    assert main(argv) == 0


# -------------------------------------------------------------------------- terminals


def on_terminal(monkeypatch: pytest.MonkeyPatch, *argv: str) -> str:
    """What a terminal receives from a command that writes little."""
    import pty

    master, slave = pty.openpty()
    try:
        with os.fdopen(slave, "w", encoding="utf-8") as terminal:
            with monkeypatch.context() as patch:
                patch.setattr("sys.stdout", terminal)
                assert main(list(argv)) == 0
        received = b""
        while piece := os.read(master, 1000):
            received += piece
    except OSError:  # Linux, where the other side has closed
        pass
    finally:
        os.close(master)
    return received.decode().replace("\r\n", "\n")


@posix_only
def test_colour_only_on_a_terminal_that_wants_it(
    pair: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    options = ["generate", *pair, "--prompt", "x", "--tokens", "8", "--seed", "3"]
    for no_color, term, coloured in (
        ("", "xterm", True),  # empty says nothing (no-color.org)
        ("0", "xterm", False),
        ("", "dumb", False),
    ):
        monkeypatch.setenv("NO_COLOR", no_color)
        monkeypatch.setenv("TERM", term)
        shown = on_terminal(monkeypatch, *options)
        assert bool(re.search("\x1b\\[3[126]m", shown)) == coloured
        assert "\x1b" not in capsys.readouterr().err  # its own stream is not a terminal
    assert main(options) == 0 and "\x1b[3" not in capsys.readouterr().out


@posix_only
@pytest.mark.parametrize("drafter", ["model", "none"])
def test_neither_prompt_nor_model_can_command_the_terminal(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, capsys: Output, drafter: str
) -> None:
    options = ["generate", *chain("\x1b[2J"), "--tokens", "4", "--drafter", drafter]
    prompt = "a\u202eb\u2028\u200b\x1b"
    shown = on_terminal(monkeypatch, *options, "--prompt", prompt)
    bare = re.sub("\x1b\\[[0-9]+m", "", shown)
    assert bare == "a<U+202E>b<U+2028><U+200B>␛[2J␛\n"
    capsys.readouterr()
    assert main([*options, "--prompt", prompt]) == 0
    assert capsys.readouterr().out == prompt + "[2J\x1b\n"  # a file gets the very text

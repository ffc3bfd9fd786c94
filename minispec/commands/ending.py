"""How a program ends: the one owner, for every command and every script.

Exit status: 0; 2 for bad input, with one line on standard error that says what is wrong
and what to do; 130 after Ctrl-C. A reader that has gone (`| head`) is not an error.

    if __name__ == "__main__":
        sys.exit(ended(main))
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from minispec.files.errors import shown


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        if re.match("unrecognized arguments: (?!-)", message):
            message += "; a text of several words needs quotes"
        self.exit(2, f"{self.prog}: {one_line(message)} (try {self.prog} --help)\n")


def at_least(lowest: int) -> Callable[[str], int]:
    """A type for argparse: whole numbers from `lowest` on."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = lowest - 1
        if value < lowest:
            raise argparse.ArgumentTypeError(
                f"expected a whole number, {lowest} or more, got {text[:40]!r}"
            )
        return value

    return number


def ended(main: Callable[[], int | None], name: str | None = None) -> int:
    """Run `main` and return the exit status of the program.

    Bad input is a ValueError, OSError or ImportError (an extra that is missing).
    `name` begins the line; by default it is that of the script.
    """
    name = name or Path(sys.argv[0]).name
    prepare_streams()
    try:
        try:
            return main() or 0
        finally:
            sys.stdout.flush()  # here, where a reader that has gone is expected
    except KeyboardInterrupt:
        complain(f"{name}: interrupted")
        return 130
    except BrokenPipeError:
        return 0
    except (ValueError, OSError, ImportError) as error:
        complain(f"{name}: {one_line(sentence(error))}")
        return 2
    except NotImplementedError as error:
        if not str(error).startswith("exercise "):  # a student's, not written yet
            raise
        complain(f"{name}: {error}")
        return 2
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        why = "there is not enough memory: ask for fewer rows, shorter texts, or a "
        complain(f"{name}: {why}smaller model")
        return 2
    finally:
        drop_unwritten()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory could not be had: torch has no error of its own for a CPU's."""
    said = re.search("out of memory|not enough memory|can't allocate", str(error))
    return isinstance(error, MemoryError) or said is not None


def sentence(error: Exception) -> str:
    """What the error says; a file that cannot be read is named."""
    if isinstance(error, ConnectionError):  # to another process of this command
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return (
            f"cannot read {error.filename}: {error.strerror}; check the path and its "
            "permissions"
        )
    if isinstance(error, OSError):
        return f"{error.strerror or error}; check where the output goes"
    return str(error)


def one_line(text: str) -> str:
    """The same without line ends and control codes, and not too long to read."""
    return shown(" ".join(text.split()), 1000)


def prepare_streams() -> None:
    """A closed stream, or an encoding that lacks a letter, must not end a decode."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: `minispec >&-`
            setattr(sys, name, open(os.devnull, "w"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def complain(line: str) -> None:
    """Say it on standard error; where that is full too, the status must do."""
    silenced = getattr(sys.stderr, "name", "") == os.devnull  # one of several ranks
    with contextlib.suppress(OSError):
        print(line, file=sys.__stderr__ if silenced else sys.stderr, flush=True)


def drop_unwritten() -> None:
    """Forget what a stream cannot take, or the interpreter complains at its exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

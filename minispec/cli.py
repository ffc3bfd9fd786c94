"""The command line: which command, and what happens when something is wrong.

Exit status: 0; 2 for bad input, with one line on standard error that says what is wrong
and what to do; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
from types import ModuleType
from typing import NoReturn

from minispec import __version__

DESCRIPTION = """\
Speculative decoding, written to be read: a small draft guesses, a large target checks
many guesses at once, and the text is distributed exactly as the target's own.

Without a command: compare, on the pair that ships with the project.
"""
ABOUT = ("-h", "--help", "--version")


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        if re.match("unrecognized arguments: (?!-)", message):
            message += "; a text of several words needs quotes"
        self.exit(2, f"{self.prog}: {one_line(message)} (try {self.prog} --help)\n")


def load_commands() -> tuple[ModuleType, ...]:
    """Imported only now: torch takes seconds, and Ctrl-C must find `main` at work."""
    from minispec.commands import compare, generate, inspect, plan, prove, trace

    return compare, generate, trace, prove, plan, inspect


def make_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = Parser(
        prog="minispec",
        description=DESCRIPTION,
        epilog="minispec COMMAND --help explains the options of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in load_commands():
        command.add_parser(commands)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run a command and return the exit status."""
    prepare_streams()
    try:
        try:
            return run_command(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()  # here, where a reader that has gone is no surprise
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # e.g. `minispec generate | head`
        return 0
    except (ValueError, OSError) as error:
        complain(f"minispec: {describe(error)}")
        return 2
    finally:
        drop_unwritten()


def run_command(argv: list[str]) -> int:
    """The command that is named, or compare."""
    if not argv or (argv[0].startswith("-") and argv[0] not in ABOUT):
        argv = ["compare", *argv]
    args = make_parser().parse_args(argv)
    return args.run(args)


def prepare_streams() -> None:
    """Let neither a closed stream nor an encoding without some letter end a decode."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell: `minispec >&-`
            setattr(sys, name, open(os.devnull, "w"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def complain(line: str) -> None:
    """Say it on standard error; where that is full too, the status must do."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def drop_unwritten() -> None:
    """Forget what a stream refuses, or the interpreter complains at its exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def describe(error: Exception) -> str:
    """The error in one line; a file that cannot be read is named."""
    if isinstance(error, OSError) and error.filename is not None:
        return one_line(
            f"cannot read {error.filename}: {error.strerror}; check the path and its "
            "permissions"
        )
    if isinstance(error, OSError):
        return one_line(f"{error.strerror or error}; check where the output goes")
    return one_line(str(error))


def one_line(text: str) -> str:
    """The same without line ends and without anything that a terminal would obey."""
    words = " ".join(text.split())
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in words)

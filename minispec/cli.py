"""The command line: which command, and what happens when something is wrong."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from minispec import __version__
from minispec.commands import compare, generate, plan

DESCRIPTION = """\
Speculative decoding, written to be read: a small draft guesses, a large target checks
many guesses at once, and the text is distributed exactly as the target's own.

Without a command: compare, on the pair that ships with the project.
"""
COMMANDS = (compare, generate, plan)
ABOUT = ("-h", "--help", "--version")


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (try {self.prog} --help)\n")


def make_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = Parser(
        prog="minispec",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(commands)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run a command. Exit status: 0; 2 for bad input; 130 after Ctrl-C."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or (argv[0].startswith("-") and argv[0] not in ABOUT):
        argv = ["compare", *argv]
    args = make_parser().parse_args(argv)
    try:
        return args.run(args)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has gone, e.g. `minispec generate | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print(f"minispec: {describe(error)}", file=sys.stderr)
        return 2


def describe(error: Exception) -> str:
    """The error in one line; a file that cannot be read is named."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot read {error.filename}: {error.strerror}"
    return " ".join(str(error).split())

"""The command line: which command runs. How it ends is in `ending`."""

from __future__ import annotations

import argparse
import sys

import minispec
from minispec.commands import batch, compare, generate, inspect, plan, prove, trace
from minispec.commands.ending import Parser, ended
from minispec.commands.ranks import leave, quiet

DESCRIPTION = """\
Speculative decoding, written to be read: a small draft guesses, a large target checks
many guesses at once, and the text has exactly the target's own distribution.

Without a command: compare, on the pair that ships with the project.
"""
ABOUT = ("-h", "--help", "--version")


def make_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = Parser(
        prog="minispec",
        description=DESCRIPTION,
        epilog="minispec COMMAND --help explains the options of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=minispec.__version__)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (compare, generate, batch, trace, prove, plan, inspect):
        command.add_parser(commands)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run a command and return the exit status."""
    given = sys.argv[1:] if argv is None else argv
    quiet()
    return ended(lambda: run_command(given), "minispec")


def run_command(argv: list[str]) -> int:
    """The command that is named, or compare."""
    if not argv or (argv[0].startswith("-") and argv[0] not in ABOUT):
        argv = ["compare", *argv]
    args = make_parser().parse_args(argv)
    status = args.run(args)
    leave()
    return status

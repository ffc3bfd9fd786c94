"""`minispec inspect`: what a checkpoint folder holds, before anything is decoded."""

from __future__ import annotations

import argparse
from pathlib import Path

from minispec.files.inspection import inspect, measure_bandwidth, report
from minispec.files.pair import SHIPPED, check_folder

DESCRIPTION = """\
Layers, heads, widths, vocabulary, parameters; bytes and types on disk; what the KV
cache takes per token; and how long a token takes if all the time goes into reading the
weights, at the memory bandwidth measured now. By default, both models that ship with
the project.
"""


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    parser = commands.add_parser(
        "inspect",
        help="show what checkpoint folders hold",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        metavar="FOLDER",
        default=[SHIPPED / "target", SHIPPED / "draft"],
        help="folders with config.json and weights",
    )
    parser.set_defaults(run=run_inspect)


def run_inspect(args: argparse.Namespace) -> int:
    """Measure the memory once, then report folder by folder."""
    for folder in args.folders:
        check_folder(folder)
    bandwidth = measure_bandwidth()
    print("\n\n".join(report(inspect(folder, bandwidth)) for folder in args.folders))
    return 0

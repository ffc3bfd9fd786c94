"""`minispec inspect`: what a folder holds, before anything is decoded."""

from __future__ import annotations

import argparse
from pathlib import Path

from minispec.files.head import is_head
from minispec.files.inspection import head_report, inspect, measure_bandwidth, report
from minispec.files.pair import SHIPPED, check_folder

DESCRIPTION = """\
Show a model's layers, heads, widths, vocabulary and parameters; its bytes and types on
disk; what the KV cache takes per token; and how long a token takes if all the time goes
into reading the weights, at the memory bandwidth measured now. Of a head's folder, show
which head it is and for which target. By default, both models that ship with the
project.
"""


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    parser = commands.add_parser(
        "inspect",
        help="show what folders of models and heads hold",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "folders",
        nargs="*",
        type=Path,
        metavar="FOLDER",
        default=[SHIPPED / "target", SHIPPED / "draft"],
        help="folder with config.json and weights",
    )
    parser.set_defaults(run=run_inspect)


def run_inspect(args: argparse.Namespace) -> int:
    """Measure the memory once, then report folder by folder."""
    for folder in args.folders:
        check_folder(folder)
    models = [folder for folder in args.folders if not is_head(folder)]
    bandwidth = measure_bandwidth() if models else 0.0
    reports = (
        report(inspect(one, bandwidth)) if one in models else head_report(one)
        for one in args.folders
    )
    print("\n\n".join(reports))
    return 0

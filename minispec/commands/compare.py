"""`minispec compare`: the same prompt with and without a draft, side by side."""

from __future__ import annotations

import argparse
import json
import sys

from minispec.commands.comparison import Comparison, as_json, progress, table
from minispec.commands.options import (
    Request,
    add_decoding_options,
    at_least,
    request_from,
)
from minispec.commands.streaming import paint_for, run, steps_of, write, write_trace
from minispec.trace import Paint, legend

DESCRIPTION = """\
Decode the same prompt twice, first with the target alone, which takes one pass of the
large model for every token, then speculatively: a draft guesses --gamma tokens, and one
pass of the target checks them all. Then compare the speed.

Both texts are drawn from the same distribution, though not with the same dice, so they
differ. At temperature 0 there are no dice, and they are the same text. Further repeats
run in silence, by turns, and the table shows medians.
"""
EXAMPLES = """\
examples:
  minispec compare --temperature 0 --gamma 6
  minispec compare --prompt "HAMLET:" --drafter ngram --tokens 100
  minispec compare --repeats 5 --json > speed.json
"""


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    parser = commands.add_parser(
        "compare",
        help="decode with and without a draft, and compare (the default)",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_decoding_options(parser)
    parser.add_argument(
        "--repeats",
        type=at_least(1),
        default=3,
        metavar="N",
        help="how often to time each (%(default)s)",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    output.add_argument(
        "--trace",
        action="store_true",
        help="afterwards, print every speculative round: probabilities and fates",
    )
    parser.set_defaults(run=run_compare)


def run_compare(args: argparse.Namespace) -> int:
    """Warm up, decode by turns, and report what was measured, after Ctrl-C too."""
    if args.drafter == "none":
        raise ValueError(
            "compare needs a drafter: give --drafter model or ngram, or use "
            "`generate --drafter none` for the target alone"
        )
    request = request_from(args)
    comparison, paint = Comparison(), paint_for(sys.stdout)
    status = 0
    try:
        warm_up(request)
        decode_by_turns(request, comparison, args.repeats, paint, show=not args.json)
    except KeyboardInterrupt:
        status = 130
        print(f"interrupted: {progress(comparison)}", file=sys.stderr)
    if comparison.is_complete:
        show = as_json(request, comparison) if args.json else None
        write(f"{json.dumps(show) if show else table(request, comparison)}\n")
    if args.trace and comparison.speculative:
        write_trace(request, comparison.speculative[0], paint)
    return status


def warm_up(request: Request) -> None:
    """A few steps of each kind: the first calls of a process are slow."""
    for speculative in (False, True):
        steps = steps_of(request, speculative)
        for _ in zip(range(4), steps):
            pass


def decode_by_turns(
    request: Request, comparison: Comparison, repeats: int, paint: Paint, show: bool
) -> None:
    """Target alone, speculative, target alone, ...; the first of each is shown."""
    titles = ("the target alone", f"speculative  [{legend(paint)}]")
    for repeat in range(repeats):
        shown = show and repeat == 0
        for speculative, title in enumerate(titles):
            decode = comparison.begin(bool(speculative))
            if shown:
                write(f"--- {title}\n{paint(request.text, 'plain')}")
            try:
                run(request, decode, bool(speculative), paint, shown)
            finally:
                write("\n\n" if shown else "")
        if shown and repeats > 1:
            print(f"(timing both again, {repeats} runs in all)\n", file=sys.stderr)

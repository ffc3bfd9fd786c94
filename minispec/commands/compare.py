"""`minispec compare`: the same prompt with and without a draft, side by side."""

from __future__ import annotations

import argparse
import json
import sys

from minispec.commands.comparison import Comparison, as_json, progress, table
from minispec.commands.ending import at_least
from minispec.commands.job import Job, job_from
from minispec.commands.options import add_decoding_parser
from minispec.commands.streaming import paint_for, rounds_of, show, warm_up, write
from minispec.show.terminal import Paint, legend

SAYS = "decode with and without a draft, and compare (the default)"
DESCRIPTION = """\
Decode the same prompt twice and compare the speed: first with the target alone, which
takes one pass of the large model for every token, then speculatively, where one pass of
the target verifies several guessed tokens.

With an exact judge both texts have the same distribution, but they are drawn with
different random numbers and so differ. At temperature 0, and with --coupled, they are
the same text. Further repeats are timed by turns in silence; the table shows medians.
"""
EXAMPLES = """\
examples:
  minispec compare --temperature 0 --gamma 6
  minispec compare --prompt "HAMLET:" --drafter ngram --tokens 100
  minispec compare --repeats 5 --json > speed.json
"""


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    texts = SAYS, DESCRIPTION, EXAMPLES
    parser = add_decoding_parser(commands, run_compare, "compare", texts)
    times = "how often to time each (%(default)s)"
    parser.add_argument(
        "--repeats", type=at_least(1), default=3, metavar="N", help=times
    )
    output = parser.add_mutually_exclusive_group()
    only = "print one JSON object and nothing else"
    output.add_argument("--json", action="store_true", help=only)
    rounds = "afterwards, print every round: each draft, and what became of it"
    output.add_argument("--trace", action="store_true", help=rounds)


def run_compare(args: argparse.Namespace) -> int:
    """Warm up, decode by turns, and report the measurements, after Ctrl-C too."""
    job = job_from(args)
    comparison, status = Comparison(job), 0
    try:
        warm_up(job)
        decode_by_turns(job, comparison, args)
    except KeyboardInterrupt:
        status = 130
        print(f"interrupted: {progress(comparison)}", file=sys.stderr)
    if comparison.repeats:
        report = json.dumps(as_json(comparison)) if args.json else table(comparison)
        write(f"{report}\n")
    for decode in comparison.speculative:
        write("".join(f"{table}\n" for table in decode.tables))
    return status


def decode_by_turns(
    job: Job, comparison: Comparison, args: argparse.Namespace
) -> None:
    """Target alone, speculative, target alone, ...; the first of each is shown."""
    paint = Paint(False) if args.json else paint_for(sys.stdout)
    colours = f"  [{legend(paint)}]" if paint.enabled else ""
    titles = "the target alone", f"speculative{colours}"
    for repeat in range(args.repeats):
        for speculative, title in zip((False, True), titles):
            decode = comparison.begin(speculative)
            if args.json or repeat:
                decode.run(rounds_of(job, speculative))
                continue
            write(f"--- {title}\n{paint(job.text, 'plain')}")
            try:
                show(job, decode, speculative, paint, args.trace and speculative)
            finally:
                write("\n\n")
        if args.repeats > 1 and not (args.json or repeat):
            again = f"(timing both again, {args.repeats} runs in all)\n"
            print(again, file=sys.stderr)

"""`minispec generate`: continue a prompt, speculatively or with the target alone."""

from __future__ import annotations

import argparse
import sys

from minispec.commands.options import Request, add_decoding_options, request_from
from minispec.commands.streaming import Decode, run, wants_colour, write
from minispec.trace import Paint, legend, round_table

DESCRIPTION = """\
Continue a prompt. The text has exactly the law of the target model alone; the drafter
only decides how fast it comes. On a terminal, drafted tokens are coloured by what became
of them. The text goes to standard output, everything else to standard error.
"""
EXAMPLES = """\
examples:
  minispec generate --prompt "ROMEO:" --tokens 80
  minispec generate --prompt-file scene.txt --drafter ngram --temperature 0 --trace
  echo "MACBETH:" | minispec generate --prompt - --top-p 0.9 --seed 7
"""


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    parser = commands.add_parser(
        "generate",
        help="continue a prompt",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_decoding_options(parser)
    parser.add_argument(
        "--trace",
        action="store_true",
        help="afterwards, print every round: probabilities and fates",
    )
    parser.set_defaults(run=run_generate)


def run_generate(args: argparse.Namespace) -> int:
    """Stream the text, then what it took."""
    request = request_from(args)
    paint, decode = Paint(wants_colour()), Decode()
    write(request.text)
    try:
        run(request, decode, request.drafter is not None, paint, show=True)
    finally:  # Ctrl-C too: what was written stays, and is accounted for
        write("\n")
        print(summary(decode, request, paint), file=sys.stderr)
        if args.trace:
            show_trace(decode, request, paint)
    return 0


def summary(decode: Decode, request: Request, paint: Paint) -> str:
    """One line: how much, how fast, why it ended."""
    reason = decode.finish_reason or "interrupted"
    parts = [
        f"{len(decode.tokens)} tokens in {decode.seconds:.2f} s"
        f" ({decode.tokens_per_s:.0f} tokens/s)",
        f"{decode.target_forwards} target forwards",
        f"ended by {reason}",
    ]
    if request.drafter is not None:
        generation = decode.generation()
        parts[2:2] = [f"{generation.accepted} of {generation.drafted} drafts accepted"]
    colours = [legend(paint)] if paint.enabled and request.drafter else []
    return "; ".join(parts + colours)


def show_trace(decode: Decode, request: Request, paint: Paint) -> None:
    """Every round as a small table."""
    if request.drafter is None:
        print("nothing to trace: --drafter none drafts nothing", file=sys.stderr)
    for number, round in enumerate(decode.rounds, start=1):
        print(round_table(round, number, request.pair.tokenizer, paint))

"""`minispec generate`: continue a prompt, speculatively or with the target alone."""

from __future__ import annotations

import argparse
import sys

from minispec.commands.options import Request, add_decoding_options, request_from
from minispec.commands.streaming import Decode, paint_for, run, write, write_trace
from minispec.trace import legend

DESCRIPTION = """\
Continue a prompt. The text has exactly the law of the target model alone; the drafter
only decides how fast it comes. On a terminal, tokens are coloured by what became of the
draft: green was accepted, red was drawn instead of a refused one, and cyan is the one
that the target adds for free where all were accepted.

Prompt and text go to standard output, and with --trace the rounds after them; what it
took goes to standard error.
"""
EXAMPLES = """\
examples:
  minispec generate --prompt "ROMEO:" --tokens 80
  minispec generate --prompt-file scene.txt --drafter ngram --temperature 0 --trace
  echo "MACBETH:" | minispec generate --prompt - --top-p 0.9 --seed 7
"""
ENDINGS = {
    "eos": "the model ended the text",
    "length": "all --tokens written",
    "context": "the model's context is full",
    None: "interrupted",
}


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
    """Stream the text, then what it took; after Ctrl-C that of what was written."""
    request = request_from(args)
    paint, decode = paint_for(sys.stdout), Decode()
    write(paint(request.text, "plain"))
    status = 0
    try:
        run(request, decode, request.drafter is not None, paint, show=True)
    except KeyboardInterrupt:
        status = 130
    finally:
        write("\n")
    print(summary(request, decode), file=sys.stderr)
    if args.trace:
        write_trace(request, decode, paint)
    return status


def summary(request: Request, decode: Decode) -> str:
    """One line: how much, how fast, by how many passes, why it ended."""
    parts = [
        f"{len(decode.tokens)} tokens in {decode.seconds:.2f} s"
        f" ({decode.tokens_per_s:.0f} per second)",
        f"target passes: {decode.target_forwards}",
    ]
    if request.drafter is not None:
        generation = decode.generation()
        parts.append(
            f"drafts accepted: {generation.accepted} of {generation.judged} looked at, "
            f"{generation.drafted} drafted"
        )
    parts.append(f"ended: {ENDINGS[decode.finish_reason]}")
    if request.drafter is not None and paint_for(sys.stdout).enabled:
        parts.append(legend(paint_for(sys.stderr)))
    return "; ".join(parts)

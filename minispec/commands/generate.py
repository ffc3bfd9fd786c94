"""`minispec generate`: continue a prompt, speculatively or with the target alone."""

from __future__ import annotations

import argparse
import sys

from minispec.commands.methods import DRAFTERS
from minispec.commands.job import Job, job_from
from minispec.commands.options import add_decoding_parser
from minispec.commands.streaming import Decode, paint_for, show, write
from minispec.show.terminal import legend

SAYS = "continue a prompt"
DESCRIPTION = """\
Continue a prompt. With an exact judge, as by default, the text has exactly the
distribution of the target model alone, and the drafter only decides how fast it comes.
On a terminal, colours show what became of the draft: green was accepted, red was drawn
in place of a rejected token, and cyan is the extra token where all were accepted.

The prompt and the text go to standard output, and so do the rounds with --trace. How
long it took goes to standard error.
"""
EXAMPLES = """\
examples:
  minispec generate --prompt "ROMEO:" --tokens 80
  minispec generate --prompt-file scene.txt --drafter ngram --temperature 0 --trace
  echo "MACBETH:" | minispec generate --prompt - --top-p 0.9 --stop "ACT "
"""
ENDINGS = {
    "eos": "the model ended the text",
    "stop": "reached a --stop text",
    "length": "reached --tokens",
    "context": "the model's context is full",
    None: "interrupted",
}


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    texts = SAYS, DESCRIPTION, EXAMPLES
    who = *DRAFTERS, "none"
    parser = add_decoding_parser(commands, run_generate, "generate", texts, who)
    parser.add_argument(
        "--trace",
        action="store_true",
        help="afterwards, print every round: each draft, and what became of it",
    )


def run_generate(args: argparse.Namespace) -> int:
    """Stream the text, then the figures; after Ctrl-C those of what was written."""
    job = job_from(args)
    paint, decode = paint_for(sys.stdout), Decode(job)
    write(paint(job.text, "plain"))
    status = 0
    try:
        show(job, decode, True, paint, args.trace and job.drafter is not None)
    except KeyboardInterrupt:
        status = 130
    finally:
        write("\n")
    print(summary(job, decode), file=sys.stderr)
    if args.trace and job.drafter is None:
        print("nothing to trace: --drafter none drafts nothing", file=sys.stderr)
    write("".join(f"{table}\n" for table in decode.tables))
    return status


def summary(job: Job, decode: Decode) -> str:
    """One line: how much, how fast, by how many passes, why it ended."""
    generation, n = decode.generation, decode.generation.emitted
    parts = [
        f"{n} token{'s' * (n != 1)} in {decode.seconds:.2f} s"
        f" ({decode.tokens_per_s:.0f} per second)",
        f"target passes: {generation.target_forwards}",
    ]
    if job.drafter is not None:
        one_by_one = f"{generation.judged} judged, {generation.drafted}"
        of = generation.drafted if job.method.judge == "block" else one_by_one
        parts.append(f"drafts accepted: {generation.accepted} of {of} drafted")
    parts.append(ENDINGS[decode.finish_reason])
    if job.drafter is not None and paint_for(sys.stdout).enabled:
        parts.append(legend(paint_for(sys.stderr)))
    return "; ".join(parts)

"""`minispec trace`: a decode as a page on which one steps through it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from minispec.commands.compare import warm_up
from minispec.commands.options import Request, add_decoding_options, request_from
from minispec.commands.streaming import steps_of
from minispec.commands.threads import n_parameters
from minispec.draft import Drafter
from minispec.gpt2 import GPT
from minispec.trace.page import generation_of, render, trace_data
from minispec.trace.recording import Recorded, record
from minispec.trace.speed import speed_of

DESCRIPTION = """\
Write a decode as one HTML page on which it can be stepped through: what was drafted,
with which probabilities, the draw that decided each token, the residual, both caches
before and after rollback, and the speed-up as foretold and as measured.

The page is a single file. It loads nothing, so it can be opened from disk, printed, and
passed on. The text in it is the one that `generate` writes with the same options.
"""
EXAMPLES = """\
examples:
  minispec trace --prompt "ROMEO:" --tokens 60 --out romeo.html
  minispec trace --drafter ngram --temperature 0
"""


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    parser = commands.add_parser(
        "trace",
        help="write a page on which a decode can be stepped through",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_decoding_options(parser)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("decode.html"),
        metavar="FILE",
        help="where to write the page; a file that is there is replaced (%(default)s)",
    )
    parser.set_defaults(run=run_trace)


def run_trace(args: argparse.Namespace) -> int:
    """Decode twice, the target alone for its speed, and write the page."""
    check_out(args.out)
    if args.drafter == "none":
        raise ValueError(
            "trace needs a drafter: give --drafter model or ngram, or use "
            "`generate --drafter none` for the target alone"
        )
    request = request_from(args)
    assert request.drafter is not None
    warm_up(request)
    alone = list(seconds_of(steps_of(request, speculative=False)))
    rounds = list(recorded_rounds(request, request.drafter))
    page = page_of(request, rounds, alone, settings_of(args, request))
    try:
        args.out.write_text(page, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ValueError(cannot_write(args.out, error.strerror)) from error
    print(f"{args.out}: {len(rounds)} rounds; open it in a browser")
    return 0


def check_out(path: Path) -> None:
    """Refuse what can never be written, before any time is spent on the decode."""
    if path == Path("-"):  # elsewhere that is standard output, where the summary goes
        raise ValueError(cannot_write(path, "a page needs a file of its own"))
    try:
        if path.is_dir():
            raise ValueError(cannot_write(path, "it is a folder"))
        if not path.parent.is_dir():
            raise ValueError(cannot_write(path, f"there is no folder {path.parent}"))
    except OSError as error:  # a name too long, a folder that may not be entered
        raise ValueError(cannot_write(path, error.strerror)) from error


def cannot_write(path: Path, why: str | None) -> str:
    """The sentence for the user."""
    return f"cannot write {path} ({why}): give --out a file in a folder you may write"


def recorded_rounds(request: Request, drafter: Drafter) -> Iterator[Recorded]:
    """The decode of `generate`, watched."""
    return record(
        request.pair.target,
        drafter,
        request.prompt,
        request.gamma,
        request.limits,
        request.seed,
        request.sampling,
    )


def seconds_of(steps: Iterable[object]) -> Iterator[float]:
    """The wall time of each step."""
    started = time.perf_counter()
    for _ in steps:
        ended = time.perf_counter()
        yield ended - started
        started = time.perf_counter()


def page_of(
    request: Request,
    rounds: list[Recorded],
    alone: list[float],
    settings: dict[str, str],
) -> str:
    """The page as HTML. `alone`: seconds of each step of the target alone."""
    reason = (rounds[-1].round.finish_reason if rounds else None) or (
        request.limits.reason
    )
    speed = speed_of(generation_of(rounds, reason), rounds, alone)
    data = trace_data(
        request.text,
        len(request.prompt),
        rounds,
        reason,
        speed,
        settings,
        request.pair.tokenizer,
        request.limits.eos_ids,
    )
    return render(data)


def settings_of(args: argparse.Namespace, request: Request) -> dict[str, str]:
    """What was asked for, by name. No folders: the page may be passed on."""
    draft = request.pair.draft
    return {
        "target": size_of(request.pair.target),
        "drafter": size_of(draft) if draft else "n-gram lookup in the text so far",
        "gamma": str(args.gamma),
        "temperature": f"{args.temperature:g}",
        "top-k": str(args.top_k or "all"),
        "top-p": f"{args.top_p:g}",
        "min-p": f"{args.min_p:g}",
        "repetition penalty": f"{args.repetition_penalty:g}",
        "min. tokens": str(args.min_tokens),
        "seed": str(args.seed),
    }


def size_of(model: GPT) -> str:
    """A model in a few words."""
    layers, width = model.config.n_layer, model.config.n_embd
    millions = n_parameters(model) / 1e6
    plural = "layer" if layers == 1 else "layers"
    return f"{layers} {plural} of width {width}, {millions:.3g} M parameters"

"""`minispec compare`: the same prompt with and without a draft, side by side."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from statistics import median

from minispec.commands.options import Request, add_decoding_options, request_from
from minispec.commands.streaming import (
    Decode,
    run,
    steps_of,
    text_of,
    wants_colour,
    write,
)
from minispec.trace import Paint, legend

DESCRIPTION = """\
Decode the same prompt twice, with the target alone and speculatively, and compare their
speed. Both texts have the same law; at temperature 0 they are the same text. Further
repeats run in silence, by turns, and the table shows medians.
"""


@dataclass
class Comparison:
    """Decodes of both kinds, the first of each shown."""

    autoregressive: list[Decode] = field(default_factory=list)
    speculative: list[Decode] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether there is at least one finished decode of each kind."""
        kinds = (self.autoregressive, self.speculative)
        return all(kind and kind[0].finish_reason for kind in kinds)


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    parser = commands.add_parser(
        "compare",
        help="decode with and without a draft, and compare (the default)",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_decoding_options(parser)
    parser.add_argument(
        "--repeats",
        type=int,
        default=3,
        metavar="N",
        help="how often to time each (%(default)s)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    parser.set_defaults(run=run_compare)


def run_compare(args: argparse.Namespace) -> int:
    """Warm up, decode by turns, and report what was measured."""
    if args.repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {args.repeats}")
    if args.drafter == "none":
        raise ValueError(
            "compare needs a drafter: give --drafter model or ngram, or use "
            "`generate --drafter none` for the target alone"
        )
    request = request_from(args)
    comparison, paint = Comparison(), Paint(wants_colour())
    try:
        warm_up(request)
        decode_by_turns(request, comparison, args.repeats, paint, show=not args.json)
    finally:  # Ctrl-C too: report what there is
        if args.json and comparison.is_complete:
            print(json.dumps(as_json(request, comparison), ensure_ascii=False))
        elif comparison.is_complete:
            print(table(request, comparison))
    return 0


def warm_up(request: Request) -> None:
    """A few steps of each kind: the first calls of a process are slow."""
    for speculative in (False, True):
        steps = steps_of(request, speculative)
        for _ in zip(range(4), steps):
            pass


def decode_by_turns(
    request: Request, comparison: Comparison, repeats: int, paint: Paint, show: bool
) -> None:
    """Target alone, speculative, target alone, ...; the first two are shown."""
    titles = ("the target alone", f"speculative  [{legend(paint)}]")
    kinds = (comparison.autoregressive, comparison.speculative)
    for repeat in range(repeats):
        shown = show and repeat == 0
        for speculative, (title, decodes) in enumerate(zip(titles, kinds)):
            decodes.append(Decode())
            if shown:
                write(f"--- {title}\n{request.text}")
            run(request, decodes[-1], bool(speculative), paint, shown)
            if shown:
                write("\n\n")


def speed(decodes: list[Decode]) -> float:
    """Median tokens per second of the finished decodes."""
    return median(d.tokens_per_s for d in decodes if d.finish_reason)


def as_json(request: Request, comparison: Comparison) -> dict[str, object]:
    """Everything measured, and both texts."""
    alone, fast = comparison.autoregressive, comparison.speculative
    generation = fast[0].generation()
    return {
        "autoregressive_tokens_per_s": speed(alone),
        "speculative_tokens_per_s": speed(fast),
        "speedup": speedup(comparison),
        "acceptance_rate": generation.acceptance_rate,
        "tokens_per_target_forward": generation.tokens_per_target_forward,
        "gamma": request.gamma,
        "temperature": request.sampling.temperature,
        "seed": request.seed,
        "repeats": len([d for d in fast if d.finish_reason]),
        "drafted": generation.drafted,
        "accepted": generation.accepted,
        "emitted": generation.emitted,
        "target_forwards": generation.target_forwards,
        "autoregressive_text": text_of(request, alone[0]),
        "speculative_text": text_of(request, fast[0]),
        "autoregressive_finish_reason": alone[0].finish_reason,
        "finish_reason": generation.finish_reason,
    }


def speedup(comparison: Comparison) -> float | None:
    """Speculative over autoregressive tokens per second; None if nothing was decoded."""
    slow = speed(comparison.autoregressive)
    return speed(comparison.speculative) / slow if slow else None


def table(request: Request, comparison: Comparison) -> str:
    """The figures for people, and what to try next."""
    alone, fast = comparison.autoregressive, comparison.speculative
    generation = fast[0].generation()
    rows = [
        ("", "target alone", "speculative"),
        ("tokens per second", f"{speed(alone):.0f}", f"{speed(fast):.0f}"),
        ("tokens", str(len(alone[0].tokens)), str(generation.emitted)),
        ("target forwards", str(alone[0].target_forwards), str(len(fast[0].rounds))),
        ("tokens per target forward", "1.00", ratio(generation.tokens_per_target_forward)),
        ("acceptance rate", "", ratio(generation.acceptance_rate)),
        ("speed-up", "", f"{ratio(speedup(comparison))}x"),
    ]
    lines = [f"{name:<27}{a:>14}{b:>14}" for name, a, b in rows]
    settings = (
        f"gamma {request.gamma}, temperature {request.sampling.temperature}, "
        f"seed {request.seed}, median of {len(fast)}"
    )
    return "\n".join([*lines, settings, f"next: {advice(request)}"])


def ratio(value: float | None) -> str:
    """Two digits, or a dash where there is nothing to divide."""
    return "-" if value is None else f"{value:.2f}"


def advice(request: Request) -> str:
    """One thing to try."""
    if request.sampling.temperature > 0:
        return "--temperature 0 (both texts become the same), or generate --trace"
    return "--temperature 1, --gamma 2 or 8, --drafter ngram, or generate --trace"

#!/usr/bin/env python3
"""How fast is speculative decoding here, and did the analysis predict it?

Decodes the same prompts in every way: the target alone, with the draft model at each
gamma, with prompt lookup, and (where it is installed) with transformers, plain and
assisted. For each temperature it shows

  costs      milliseconds of one draft step, and of verifying and rejecting K drafts
             (K = 0 is a plain step), over a cache as long as the texts are on average
  speeds     tokens per second, and how many times the target alone that is
  predicted  the speed-up that analysis.expected_speedup makes of alpha and the costs;
             `by rounds` replaces the i.i.d. assumption by the tokens per round that
             were counted, so it tests the costs alone

Every repeat runs every method once on all prompts, with the same seeds; shown is the
median over the repeats, and speed-ups are taken within a repeat. For figures worth
keeping, leave the machine alone meanwhile.

  python scripts/benchmark.py                       the shipped pair, some ten minutes
  python scripts/benchmark.py --quick               a look at it, under a minute
  python scripts/benchmark.py --temperatures 0 --gammas 4 --json speed.json
  python scripts/benchmark.py --shape gpt2          passes over random weights instead
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from benchmark_methods import (
    Costs,
    Decoded,
    Method,
    interleave,
    measure_costs,
    minispec_methods,
    transformers_methods,
)
from benchmark_report import Row, machine, predict, rate_of, report, row_of
from benchmark_shapes import report_of_shape
from measure_loading import SHAPES

from minispec.commands.ending import Parser, at_least, ended
from minispec.commands.threads import settle_threads
from minispec.core.sampling import Sampling
from minispec.files.pair import SHIPPED, Pair, load_pair
from minispec.files.whole import check_writable, replacing

PROMPTS = [
    "KING HENRY:\nMy lords, the night is spent, and yet",
    "FIRST WITCH:\nWhere shall we meet, and what",
    "LADY CAPULET:\nGood nurse, I pray thee tell me",
    "DUKE:\nIf thou dost love me, then",
    "Enter two Gentlemen\n\nFirst Gentleman:\nWhat news, sir, from",
    "BRUTUS:\nThe people stand without, and every",
]


def measure(args: argparse.Namespace, pair: Pair, temperature: float) -> list[Row]:
    """Every repeat of every method on all prompts, at one temperature."""
    methods = minispec_methods(pair, args.gammas)
    if not args.no_transformers:
        methods += transformers_methods(args.target, args.draft, args.gammas)
    for method in methods:
        say(f"warming up: {method.name}")
        method.decode(args.prompts[0], min(8, args.tokens), temperature, 0)
    works = {m.name: decode_all(m, args, temperature) for m in methods}
    samples = []
    for sample in interleave(works, args.repeats):
        samples.append(sample)
        say(
            f"temperature {temperature:g}, repeat {sample.repeat + 1} of "
            f"{args.repeats}: {sample.name}, {rate_of(sample):.0f} tokens/s"
        )
    return [row_of(method, temperature, samples) for method in methods]


def costs_at(args: argparse.Namespace, pair: Pair, temperature: float) -> Costs:
    """Costs half way through a text of average length."""
    say(f"temperature {temperature:g}: what a step costs")
    tokens, n = torch.cat(args.prompts), len(args.prompts)
    length = len(tokens) // n + args.tokens // 2
    prefix = tokens.repeat(1 + length // len(tokens))[:length]
    repeats = 2 if args.quick else 5 * args.repeats
    return measure_costs(pair, prefix, args.gammas, temperature, repeats)


def decode_all(
    method: Method, args: argparse.Namespace, temperature: float
) -> Callable[[int], list[Decoded]]:
    """A work for `interleave`: every prompt once, seeded by the repeat."""
    return lambda repeat: [
        method.decode(prompt, args.tokens, temperature, 1000 * repeat + i)
        for i, prompt in enumerate(args.prompts)
    ]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    count = at_least(1)

    def gammas(text: str) -> list[int]:
        return [count(part) for part in text.split(",")]

    def temperatures(text: str) -> list[float]:
        return [Sampling(float(part)).temperature for part in text.split(",")]

    add = parser.add_argument
    add("--target", type=Path, default=SHIPPED / "target", help="the target's folder")
    add("--draft", type=Path, default=SHIPPED / "draft", help="the draft's folder")
    add("--tokens", type=count, default=128, help="new tokens each (%(default)s)")
    add("--repeats", type=count, default=5, help="of every method (%(default)s)")
    add("--gammas", type=gammas, default=[1, 2, 3, 4, 5, 6, 8], help="like 1,2,4")
    add("--temperatures", type=temperatures, default=[0.0, 1.0], help="like 0,0.7,1")
    add("--json", type=Path, metavar="FILE", help="write all figures there as well")
    add("--no-transformers", action="store_true", help="leave transformers out")
    says = "no texts: passes of a model of this shape, against the memory's bandwidth"
    add("--shape", choices=SHAPES, help=says)
    add("--quick", action="store_true", help="2 gammas, 2 prompts, 1 repeat, 24 tokens")
    args = parser.parse_args(argv)
    args.prompts = PROMPTS
    if args.quick:
        args.gammas, args.repeats = args.gammas[1:4:2] or args.gammas[:1], 1
        args.tokens, args.prompts = min(args.tokens, 24), PROMPTS[:2]
    return args


def prepare(args: argparse.Namespace) -> Pair:
    """Load what the arguments name. ValueError or OSError if that cannot work."""
    if args.json:
        check_writable(args.json)
    pair = load_pair(args.target, args.draft)
    settle_threads(pair.target)
    args.prompts = [torch.tensor(pair.tokenizer.encode(text)) for text in args.prompts]
    longest = max(map(len, args.prompts)) + args.tokens + max(args.gammas)
    context = min(m.config.n_positions for m in (pair.target, pair.draft) if m)
    if longest > context:
        raise ValueError(
            f"a prompt, --tokens and gamma together need {longest} positions of "
            f"{context}: give fewer --tokens"
        )
    return pair


def main(argv: list[str] | None = None) -> int:
    """0 when done."""
    args = parse(argv)
    if args.shape:
        print(report_of_shape(args.shape, args.repeats, not args.no_transformers))
        return 0
    pair = prepare(args)
    costs = {t: costs_at(args, pair, t) for t in args.temperatures}
    rows = [row for t in args.temperatures for row in measure(args, pair, t)]
    for row in rows:
        predict(row, costs[row["temperature"]])
    print(report(costs, rows))
    if args.json:
        figures = {
            "machine": machine(),
            "setting": {**vars(args), "prompts": len(args.prompts)},
            "costs_s": {f"{t:g}": cost._asdict() for t, cost in costs.items()},
            "methods": rows,
        }
        with replacing(args.json) as part:
            text = json.dumps(figures, indent=2, default=str) + "\n"
            part.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))

#!/usr/bin/env python3
"""How fast is speculative decoding here, and did the analysis foretell it?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from benchmark_costs import Costs, measure_costs
from benchmark_figures import Results, rate_of, rows_of
from benchmark_methods import Decoded, Method, minispec_methods, transformers_methods
from benchmark_report import as_json, report
from ending import ended, positive, status_of
from timing import interleave
from torch import Tensor

from minispec import checkpoint
from minispec.gpt2 import GPT
from minispec.pair import SHIPPED
from minispec.sampling import Sampling
from minispec.tokenizer import Tokenizer

DESCRIPTION = """\
Decode the same prompts in every way and compare: the target alone, with the draft model
at each gamma, with prompt lookup, and (where it is installed) with transformers, plain
and assisted. Three tables come out for each temperature's figures:

  costs      milliseconds of one target step, one draft step, and of a round without its
             drafting by K (verify, reject, commit, roll back), over a cache as long as
             the texts are on average
  speeds     tokens per second, and how many times the target alone that is
  forecast   the speed-up that analysis.expected_speedup makes of alpha and the costs,
             against the measured one; `by rounds` replaces the i.i.d. assumption by the
             tokens per round that were counted, so it tests the costs alone

Every repeat runs every method once on all prompts, with the same seeds; shown is the
median over the repeats, and speed-ups are taken within a repeat. Nothing ends a text
early, so all methods make the same number of tokens. Ctrl-C prints what was measured so
far. For figures worth keeping, leave the machine alone meanwhile.
"""

EXAMPLES = """\
examples:
  python scripts/benchmark.py                       the shipped pair, some ten minutes
  python scripts/benchmark.py --quick               a look at it, under a minute
  python scripts/benchmark.py --temperatures 0 --gammas 4 --json speed.json
"""

PROMPTS = [
    "KING HENRY:\nMy lords, the night is spent, and yet",
    "FIRST WITCH:\nWhere shall we meet, and what",
    "LADY CAPULET:\nGood nurse, I pray thee tell me",
    "DUKE:\nIf thou dost love me, then",
    "Enter two Gentlemen\n\nFirst Gentleman:\nWhat news, sir, from",
    "BRUTUS:\nThe people stand without, and every",
]

# ------------------------------------------------------------------------- measuring


def measure(args: argparse.Namespace, results: Results, pair: tuple[GPT, GPT]) -> None:
    """Fill `results`: first the costs, then the decodes, temperature by temperature."""
    prompts = [torch.tensor(ids) for ids in args.prompt_ids]
    for temperature in args.temperatures:
        say(f"temperature {temperature:g}: what a step costs")
        results.costs[temperature] = costs_at(temperature, args, pair, prompts)
    for method in results.methods:
        say(f"warming up: {method.name}")
        method.decode(prompts[0], min(8, args.tokens), args.temperatures[0], 0)
    for temperature in args.temperatures:
        samples = results.samples.setdefault(temperature, [])
        works = {
            m.name: decode_all(m, prompts, args.tokens, temperature)
            for m in results.methods
        }
        for sample in interleave(works, args.repeats):
            samples.append(sample)
            say(
                f"temperature {temperature:g}, repeat {sample.repeat + 1} of "
                f"{args.repeats}: {sample.name}, {rate_of(sample):.0f} tokens/s"
            )
    results.complete = True


def costs_at(
    temperature: float,
    args: argparse.Namespace,
    pair: tuple[GPT, GPT],
    prompts: list[Tensor],
) -> Costs:
    """Costs half way through a text of average length."""
    length = sum(map(len, prompts)) // len(prompts) + args.tokens // 2
    prefix = torch.cat(prompts * (1 + length // len(prompts[0])))[:length]
    lengths = sorted({*range(1 + min(8, max(args.gammas))), *args.gammas})
    repeats = 2 if args.quick else 5 * args.repeats
    return measure_costs(
        *pair, prefix, lengths, Sampling(temperature), repeats, calls=4
    )


def decode_all(
    method: Method, prompts: list[Tensor], n_tokens: int, temperature: float
) -> Callable[[int], list[Decoded]]:
    """A work for `interleave`: every prompt once, seeded by the repeat."""

    def run(repeat: int) -> list[Decoded]:
        return [
            method.decode(prompt, n_tokens, temperature, 1000 * repeat + i)
            for i, prompt in enumerate(prompts)
        ]

    return run


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ----------------------------------------------------------------------- command line


def gammas(text: str) -> list[int]:
    """`1,2,4` -> [1, 2, 4]."""
    return [positive(part) for part in text.split(",")]


def temperatures(text: str) -> list[float]:
    """`0,1` -> [0.0, 1.0]."""
    return [Sampling(float(part)).temperature for part in text.split(",")]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("--target", type=Path, default=SHIPPED / "target", help="the target's folder")
    add("--draft", type=Path, default=SHIPPED / "draft", help="the draft's folder")
    add("--prompts", type=Path, help="a UTF-8 file, an empty line between prompts")
    add("--tokens", type=positive, default=128, help="new tokens each (default: 128)")
    add("--repeats", type=positive, default=5, help="of every method (default: 5)")
    add("--gammas", type=gammas, default=[1, 2, 3, 4, 5, 6, 8], help="like 1,2,4")
    add("--temperatures", type=temperatures, default=[0.0, 1.0], help="like 0,0.7,1")
    add("--threads", type=positive, default=2, help="of torch (default: 2)")
    add("--json", type=Path, metavar="FILE", help="write all figures there as well")
    add("--no-transformers", action="store_true", help="leave transformers out")
    add("--quick", action="store_true", help="2 gammas, 2 prompts, 1 repeat, 24 tokens")
    return made


def shorten(args: argparse.Namespace) -> None:
    """What --quick means."""
    args.gammas, args.repeats = args.gammas[1:4:2] or args.gammas[:1], 1
    args.tokens, args.prompt_ids = min(args.tokens, 24), args.prompt_ids[:2]


def prompt_ids(path: Path | None, tokenizer: Tokenizer) -> list[list[int]]:
    """The prompts of a file, or the ones built in, as ids."""
    texts = PROMPTS
    if path:
        texts = path.read_text(encoding="utf-8").strip().split("\n\n")
    return [tokenizer.encode(text) for text in texts]


def check_room(args: argparse.Namespace, context: int) -> None:
    """ValueError unless every prompt has a token and leaves room for the others."""
    longest = max(map(len, args.prompt_ids)) + args.tokens + max(args.gammas)
    if not all(args.prompt_ids) or longest > context:
        raise ValueError(
            f"a prompt, --tokens and gamma together need {longest} positions of "
            f"{context}, and no prompt may be empty: shorten one of them"
        )


def prepare(args: argparse.Namespace) -> tuple[Results, tuple[GPT, GPT]]:
    """Load what the arguments name. ValueError or OSError if that cannot work."""
    torch.set_num_threads(args.threads)
    if args.json and not args.json.absolute().parent.is_dir():
        raise ValueError(f"no folder for --json {args.json}: make it first")
    if args.json and args.json.is_dir():
        raise ValueError(f"--json {args.json} is a folder: name a file in it")
    tokenizer = Tokenizer.from_folder(args.target)
    pair = checkpoint.load(args.target), checkpoint.load(args.draft)
    sizes = [model.config.vocab_size for model in pair]
    if sizes[0] != sizes[1]:
        raise ValueError(f"target and draft need one vocabulary, got sizes {sizes}")
    args.prompt_ids = prompt_ids(args.prompts, tokenizer)
    if args.quick:
        shorten(args)
    check_room(args, min(model.config.n_positions for model in pair))
    methods = minispec_methods(*pair, args.gammas)
    if not args.no_transformers:
        methods += transformers_methods(args.target, args.draft, args.gammas)
    return Results(methods), pair


def setting(args: argparse.Namespace) -> dict[str, object]:
    """What was asked for, for the record."""
    names = ("target", "draft", "tokens", "repeats", "gammas", "temperatures")
    asked = {name: getattr(args, name) for name in names}
    return asked | {"prompts": len(args.prompt_ids)}


def main(argv: list[str] | None = None) -> int:
    """Run the command line: 0 when done, 130 if stopped, 2 if it could not start."""
    args = parser().parse_args(argv)
    return status_of("benchmark", lambda: measure_and_report(args))


def measure_and_report(args: argparse.Namespace) -> int:
    """Also what an interrupted run has measured."""
    results, pair = prepare(args)
    try:
        measure(args, results, pair)
    except KeyboardInterrupt:
        say("stopped")
    rows = rows_of(results)
    print(report(results, rows))
    if args.json:
        text = as_json(results, rows, setting(args))
        args.json.write_text(text + "\n", encoding="utf-8")
    return 0 if results.complete else 130


if __name__ == "__main__":
    sys.exit(ended(main))

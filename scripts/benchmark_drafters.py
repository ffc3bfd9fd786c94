#!/usr/bin/env python3
"""Every way to draft, in one interleaved run: what is accepted, and what it brings.

For each drafter, and for each temperature:

  by position   the share of drafting rounds that accepted drafts 1, 2, ...
  gamma         the draft length that should be fastest, from that and measured costs
  per pass      tokens for each pass of the target, with this gamma
  cost          one drafted token, in steps of the target
  speed-up      over the target alone in the same repeat, median; and as predicted from
                tokens per pass and costs

All decode the same prompts with the same seeds. Each repeat runs each drafter once. For
figures worth keeping, leave the machine alone meanwhile.

  python scripts/benchmark_drafters.py                 all that is shipped, ten minutes
  python scripts/benchmark_drafters.py --only model,eagle --repeats 1
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import NamedTuple

import torch
from benchmark import PROMPTS
from benchmark_methods import interleave

from minispec.commands.costs import Timed, seconds_of_passes, verify_cost_from
from minispec.commands.ending import Parser, at_least, ended
from minispec.commands.methods import HEADS
from minispec.commands.threads import settle_threads
from minispec.core.analysis import round_speedup
from minispec.core.autoregressive import generate_alone
from minispec.core.draft import Drafter, ModelDrafter
from minispec.core.randomness import Seeded
from minispec.core.rejection import Judge, reject
from minispec.core.rounds import Generation, Round
from minispec.core.sampling import Sampling
from minispec.core.speculative import generate
from minispec.core.text import Request
from minispec.drafters.ngram import NgramDrafter
from minispec.drafters.suffix import SuffixDrafter
from minispec.drafters.vocabularies import drafter_for
from minispec.files.head import load_head
from minispec.files.pair import SHIPPED, Pair, load_packed, load_pair
from minispec.judges.block import reject_block

LONGEST = 12  # the longest draft that is tried
PAUSE = 0.002  # seconds between passes, in which most drafters draft
ALONE = "target alone"
HEADING = """\
| drafter | gamma | by position | per pass | cost | speed-up | predicted |
|---|---|---|---|---|---|---|"""


class Way(NamedTuple):
    """A way to draft, and to judge."""

    name: str
    drafter: Callable[[Sampling], Drafter]
    judge: Judge = reject


def all_ways(pair: Pair) -> list[Way]:
    """Everything that is there: heads that have not been trained are left out."""
    target, draft, V = pair.target, pair.draft, pair.tokenizer.vocab_size
    assert draft is not None

    def of_model(sampling: Sampling) -> Drafter:
        return ModelDrafter(draft, sampling)

    ways = [
        Way("model", of_model),
        Way("model, block", of_model, reject_block),
        Way("ngram", lambda sampling: NgramDrafter(V)),
        Way("suffix", lambda sampling: SuffixDrafter(V)),
    ]
    for kind in HEADS:
        if (SHIPPED / kind).is_dir():
            from_head = partial(load_head(SHIPPED / kind, target).drafter, target)
            ways.append(Way(kind, from_head))
            if kind == "eagle":
                ways.append(Way("eagle, block", from_head, reject_block))
    if (SHIPPED / "draft-bytes").is_dir():
        other, own = load_packed(SHIPPED / "draft-bytes")

        def of_bytes(sampling: Sampling) -> Drafter:
            return drafter_for(other, own, pair.tokenizer, sampling)[0]

        ways.append(Way("draft of bytes", of_bytes))
    return ways


class Bench:
    """The prompts and how they are decoded, at one temperature."""

    def __init__(self, pair: Pair, temperature: float, n_tokens: int) -> None:
        self.pair, self.n_tokens = pair, n_tokens
        self.sampling = Sampling(temperature)
        encode = pair.tokenizer.encode
        self.prompts = [torch.tensor(encode(prompt)) for prompt in PROMPTS]
        text = torch.cat(self.prompts)
        self.seconds = seconds_of_passes(pair.target, text, PAUSE)
        self.verify_cost = verify_cost_from(self.seconds)

    def alone(self, seed: int) -> None:
        """All prompts, by the target alone."""
        for prompt in self.prompts:
            request = Request(prompt, self.n_tokens, self.sampling)
            generate_alone(self.pair.target, request, Seeded(seed))

    def decode(self, way: Way, gamma: int, seed: int) -> tuple[Generation, float]:
        """All prompts: their rounds together, and a drafted token's cost in steps."""
        timed = Timed(way.drafter(self.sampling))
        target = getattr(timed.drafter, "target", self.pair.target)
        rounds: list[Round] = []
        for prompt in self.prompts:
            request = Request(prompt, self.n_tokens, self.sampling, gamma, way.judge)
            rounds += generate(target, timed, request, Seeded(seed)).rounds
        return Generation(tuple(rounds)), median(timed.seconds) / self.seconds[1]

    def best_gamma(self, way: Way) -> int:
        """From acceptance by position at LONGEST, and the costs."""
        done, cost = self.decode(way, LONGEST, seed=0)
        shares = done.acceptance_by_position

        def speedup(gamma: int) -> float:
            tokens = 1 + sum(shares[:gamma])
            return round_speedup(tokens, gamma, cost, self.verify_cost(gamma))

        return max(range(1, max(2, len(shares) + 1)), key=speedup)


def measure(bench: Bench, ways: list[Way], repeats: int) -> list[str]:
    """One line of the table for each way."""
    gammas = {way.name: bench.best_gamma(way) for way in ways}
    works: dict[str, Callable[[int], object]] = {ALONE: bench.alone}
    for way in ways:
        works[way.name] = partial(bench.decode, way, gammas[way.name])
    bench.alone(0)
    taken: dict[str, list[float]] = {name: [] for name in works}
    found: dict[str, tuple[Generation, float]] = {}
    for sample in interleave(works, repeats):
        taken[sample.name].append(sample.seconds)
        found[sample.name] = sample.result
    lines = []
    for way in ways:
        (done, cost), gamma = found[way.name], gammas[way.name]
        pairs = zip(taken[ALONE], taken[way.name])
        gain = median(slow / fast for slow, fast in pairs)
        n, drafted = done.target_forwards, done.drafted
        per_pass, drafts = done.emitted / n, drafted / n
        predicted = round_speedup(per_pass, drafts, cost, bench.verify_cost(gamma))
        shares = " ".join(f"{share:.2f}" for share in done.acceptance_by_position[:5])
        lines.append(
            f"| {way.name} | {gamma} | {shares} | {per_pass:.2f} | {cost:.3f} "
            f"| **{gain:.2f}x** | {predicted:.2f}x |"
        )
    return lines


def main(argv: list[str] | None = None) -> int:
    """Both temperatures, each a table."""
    parser = Parser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", metavar="NAMES", help="drafters, separated by commas (default: all)")
    add("--repeats", type=at_least(1), default=3, metavar="N", help="(%(default)s)")
    add("--tokens", type=at_least(8), default=128, metavar="N", help="(%(default)s)")
    args = parser.parse_args(argv)
    pair = load_pair()
    settle_threads(pair.target)
    ways = all_ways(pair)
    chosen = args.only.split(",") if args.only else [way.name for way in ways]
    if unknown := set(chosen) - {way.name for way in ways}:
        known = ", ".join(way.name for way in ways)
        raise ValueError(f"no drafter {min(unknown)!r:.80}: there are {known}")
    for temperature in (0.0, 1.0):
        bench = Bench(pair, temperature, args.tokens)
        costs = ", ".join(f"{g + 1}: {bench.verify_cost(g):.2f}" for g in (4, 8, 12))
        print(f"temperature {temperature:g}; a pass over tokens, in steps: {costs}\n")
        print(HEADING)
        some = [way for way in ways if way.name in chosen]
        print("\n".join(measure(bench, some, args.repeats)), end="\n\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))

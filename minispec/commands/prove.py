"""`minispec prove`: every outcome of chance, with and without a draft, compared."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import torch

from minispec import GPT, Drafter, GPTConfig, ModelDrafter, NgramDrafter, Request
from minispec import Sampling, generate, generate_alone
from minispec.batches.drafting import BatchModelDrafter
from minispec.batches.speculative import generate_batch
from minispec.commands.ending import at_least
from minispec.core.randomness import Randomness, Seeded
from minispec.core.rejection import Judge, reject
from minispec.drafters.block_diffusion import BlockDiffusion
from minispec.drafters.eagle import Eagle, Eagle3
from minispec.drafters.early_exit import EarlyExit
from minispec.drafters.heads import Head
from minispec.drafters.medusa import Medusa
from minispec.drafters.mtp import MTP
from minispec.drafters.suffix import SuffixDrafter, SuffixTrees
from minispec.exactness import (
    ROUNDING,
    Distribution,
    difference_table,
    enumerate_outputs,
    largest_difference,
    output_distribution,
)
from minispec.judges import EXACT
from minispec.judges.lossy import lenient
from minispec.trees.drafters import BestTrees, FixedTrees
from minispec.trees.factorised import FactorisedTrees
from minispec.trees.ngram import NgramTrees
from minispec.trees.shape import from_widths
from minispec.trees.speculative import generate_with_trees
from minispec.trees.tree import TreeDrafter

V, GAMMA, N_NEW, EOS = 3, 2, 4, 2
PROMPT = torch.tensor([0, 1, 0])
DESCRIPTION = f"""\
Is the speculative text distributed exactly as the target's own? There are finitely many
random outcomes, each with a known probability. So the real decoder runs once down every
branch, and the probabilities of the branches that lead to the same text are added up.
This is the whole distribution of its output, and nothing is estimated.

Here tiny models in float64 write up to {N_NEW} tokens from a vocabulary of {V}, one of
them an EOS, with {GAMMA} drafts in each round. There is a line for each drafter with
each exact judge, for trees, for greedy and coupled decoding, and for a batch. It shows
how many texts can come out, how many branches lead to them, and the largest difference
from the target in the probability of a text. Rounding leaves less than {ROUNDING:.0e}.
The last line is wrong on purpose, to show what a difference looks like.
"""
WARM = Sampling(1.5, eos_ids=(EOS,))


class Case(NamedTuple):
    """One line of the table: what it is called, and how it writes a text."""

    drafter: str
    how: str
    write: Callable[[Randomness], tuple[int, ...]]
    sampling: Sampling = WARM


def cases(target: GPT, draft: GPT) -> Iterator[Case]:
    """Everything that is exact. Another method is another line."""
    for name, drafter in chains(target, draft, WARM).items():
        for judge_name, judge in EXACT.items():
            yield Case(name, judge_name, chain(target, drafter, WARM, judge))
    for name, trees in all_trees(target, draft).items():
        yield Case(name, "tree", tree(target, trees))
    greedy, coupled = Sampling(0, eos_ids=(EOS,)), Sampling(noise_seed=1)
    for how, sampling in (("greedy", greedy), ("coupled", coupled)):
        for name in ("model", "ngram"):
            drafter = chains(target, draft, sampling)[name]
            yield Case(name, how, chain(target, drafter, sampling), sampling)
    yield Case("model", "batch", batch(target, draft))


def chains(target: GPT, draft: GPT, sampling: Sampling) -> dict[str, Drafter]:
    """Every drafter of chains; heads have random weights."""
    config = target.config
    heads: dict[str, Head] = {
        "eagle": Eagle(config, 4, 2),
        "eagle3": Eagle3(config, 4, 2),
        "mtp": MTP(config, 2, 2, 3),
        "medusa": Medusa(config, 2),
        "early-exit": EarlyExit(config, 1, 3),
        "block-diffusion": BlockDiffusion(config, 4, 2, 1, 2),
    }
    return {
        "model": ModelDrafter(draft, sampling),
        "ngram": NgramDrafter(V, longest=2),
        "suffix": SuffixDrafter(V, least=0.0),
    } | {name: random(head).drafter(target, sampling) for name, head in heads.items()}


def random(head: Head) -> Head:
    """Weights large enough for the head to have opinions."""
    noise = torch.Generator().manual_seed(0)
    for parameter in head.double().requires_grad_(False).parameters():
        parameter.normal_(0.2, 0.8, generator=noise)
    return head


def all_trees(target: GPT, draft: GPT) -> dict[str, TreeDrafter]:
    """Every drafter of trees."""
    medusa = random(Medusa(target.config, 2)).drafter(target, WARM)
    return {
        "model": FixedTrees(draft, from_widths([2, 1]), WARM),
        "model, best": BestTrees(draft, 3, WARM, depth=2),
        "ngram": NgramTrees(V, 3, depth=2),
        "suffix": SuffixTrees(V, 3),
        "medusa": FactorisedTrees(medusa, from_widths([2, 2])),  # type: ignore
    }


def chain(
    target: GPT, drafter: Drafter, sampling: Sampling, judge: Judge = reject
) -> Callable[[Randomness], tuple[int, ...]]:
    """Writes with drafts one after another."""
    request = Request(PROMPT, N_NEW, sampling, GAMMA, judge)
    stand_in = getattr(drafter, "target", target)
    return lambda chance: generate(stand_in, drafter, request, chance).tokens


def tree(
    target: GPT, drafter: TreeDrafter
) -> Callable[[Randomness], tuple[int, ...]]:
    """Writes with trees of drafts."""
    request = Request(PROMPT, N_NEW, WARM)
    return lambda chance: generate_with_trees(target, drafter, request, chance).tokens


def batch(target: GPT, draft: GPT) -> Callable[[Randomness], tuple[int, ...]]:
    """Writes beside another text, which a seed decides."""
    other = Request(torch.tensor([1]), 5, WARM, GAMMA)
    requests = [other, Request(PROMPT, N_NEW, WARM, GAMMA)]

    def write(chance: Randomness) -> tuple[int, ...]:
        drafter, chances = BatchModelDrafter(draft), [Seeded(0), chance]
        done = {d.index: d for d in generate_batch(target, drafter, requests, chances)}
        return done[1].generation.tokens

    return write


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    parser = commands.add_parser(
        "prove",
        help="enumerate all that can come out, with and without a draft",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seed",
        type=at_least(0),
        default=7,
        metavar="N",
        help="seed of the models' random weights (%(default)s); some have five times "
        "as many branches",
    )
    parser.set_defaults(run=run_prove)


def run_prove(args: argparse.Namespace) -> int:
    """Exit status 0 if all distributions agree and the wrong one is found, else 1."""
    if args.seed >= 2**63:
        raise ValueError(f"--seed must be below 2**63, got {args.seed}")
    torch.set_num_threads(1)  # models so tiny would only wait for a second one
    target, draft = tiny_gpt(args.seed, 2), tiny_gpt(args.seed + 1)
    columns = "drafter         how     sequences  branches  "
    print(f"{columns}largest difference from the target")
    worst = max(largest_difference(*compare(target, c)) for c in cases(target, draft))
    agree = worst <= ROUNDING
    verdict = "The distributions are the same" if agree else "THE DISTRIBUTIONS DIFFER"
    print(
        f"\n{verdict}: {worst:.1e} at most, tolerance {ROUNDING:.0e}.\n\n"
        "Wrong on purpose: drafts accepted with min(1, 2 * target / draft), which is "
        "faster."
    )
    drafter = ModelDrafter(draft, WARM)
    write = chain(target, drafter, WARM, lenient(0.5))
    wrong = compare(target, Case("model", "lenient", write))
    found = largest_difference(*wrong) > 1e-3
    caught = "Found" if found else "NOT FOUND"
    print(
        f"\n{caught}. Sequences it produces too often or too rarely:\n"
        f"{difference_table(*wrong)}"
    )
    return 0 if agree and found else 1


def compare(target: GPT, case: Case) -> tuple[Distribution, Distribution]:
    """One line of the table: what the decoder writes, and what the target alone."""
    found, expected = enumerate_outputs(case.write), alone(target, case.sampling)
    print(
        f"{case.drafter:<16}{case.how:<8}{len(found.distribution):>9}"
        f"{found.n_branches:>10}"
        f"{largest_difference(found.distribution, expected):>11.1e}",
        flush=True,
    )
    return found.distribution, expected


@cache
def alone(target: GPT, sampling: Sampling) -> Distribution:
    """What the target alone writes."""
    request = Request(PROMPT, N_NEW, sampling)
    return output_distribution(
        lambda chance: generate_alone(target, request, chance).tokens
    )


def tiny_gpt(seed: int, n_layer: int = 1) -> GPT:
    """Random weights, large enough for the models to have opinions."""
    config = GPTConfig(n_layer, n_head=2, n_embd=8, vocab_size=V, n_positions=16)
    model = GPT(config).to(torch.float64)
    model.initialize(torch.Generator().manual_seed(seed), std=0.5)
    return model.eval().requires_grad_(False)

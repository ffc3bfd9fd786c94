"""`minispec prove`: every outcome of chance, with and without a draft, compared."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from torch import Tensor

from minispec import GPT, Drafter, GPTConfig, ModelDrafter, NgramDrafter, Request
from minispec import Sampling, generate, generate_alone, reject
from minispec.commands.ending import at_least
from minispec.core.randomness import Randomness
from minispec.core.rejection import Judge, Verdict
from minispec.exactness import (
    ROUNDING,
    Distribution,
    difference_table,
    enumerate_outputs,
    largest_difference,
    output_distribution,
)

V, GAMMA, N_NEW, EOS = 3, 2, 4, 2
DESCRIPTION = f"""\
Is the speculative text distributed exactly as the target's own? There are finitely many
random outcomes, each with a known probability. So the real decoder is run once down
every branch, and the probabilities of the branches that lead to the same text are added
up: this is the whole distribution of its output, and nothing is estimated.

Here two tiny models in float64 write up to {N_NEW} tokens from a vocabulary of {V}, one
of them an EOS, with drafts of {GAMMA}. For each drafter and way to decode, the table
shows how many texts can come out, how many branches lead to them, and by how much the
probability of any text differs from what the target alone gives it. Rounding leaves
less than {ROUNDING:.0e}. The last line is a decoder that is wrong on purpose: this is
what a difference looks like.
"""


@dataclass(frozen=True)
class Case:
    """One way to decode. The drafter and the decoding are named for the table."""

    named: tuple[str, str]
    drafter: Drafter
    sampling: Sampling
    judge: Judge = reject


def cases(draft: GPT) -> list[Case]:
    """All that is compared. Another method is another line; the last one is wrong."""
    sampled, greedy = Sampling(1.5, eos_ids=(EOS,)), Sampling(0, eos_ids=(EOS,))
    top_k, ngram = Sampling(1.5, 2, eos_ids=(EOS,)), NgramDrafter(V, longest=2)
    return [
        Case(("model", "sampled"), ModelDrafter(draft, sampled), sampled),
        Case(("model", "top-k 2"), ModelDrafter(draft, top_k), top_k),
        Case(("model", "greedy"), ModelDrafter(draft, greedy), greedy),
        Case(("ngram", "sampled"), ngram, sampled),
        Case(("ngram", "greedy"), ngram, greedy),
        Case(("model", "lenient"), ModelDrafter(draft, sampled), sampled, lenient),
    ]


def lenient(
    tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, randomness: Randomness
) -> Verdict:  # [K], [K, V], [K + 1, V]
    """Accepts with min(1, 2 * target / draft): too readily, so faster, and wrong.

    Leviathan et al. 2023, appendix A.5, call it lenience.
    """
    return reject(tokens, draft_probs / 2, target_probs, randomness)


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    parser = commands.add_parser(
        "prove",
        help="enumerate all that can come out, and compare the distributions",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seed",
        type=at_least(0),
        default=7,
        metavar="N",
        help="which random weights the models have (%(default)s); some have five times "
        "the branches",
    )
    parser.set_defaults(run=run_prove)


def run_prove(args: argparse.Namespace) -> int:
    """Exit status 0 if all distributions agree and the wrong one is found, else 1."""
    target, draft = tiny_gpt(args.seed), tiny_gpt(args.seed + 1)
    print("drafter  decoding  sequences  branches  largest difference to the target")
    *exact, lossy = cases(draft)
    worst = max(largest_difference(*compare(target, case)) for case in exact)
    agree = worst <= ROUNDING
    verdict = "The distributions are the same" if agree else "THE DISTRIBUTIONS DIFFER"
    print(
        f"\n{verdict}: {worst:.1e} at most, tolerance {ROUNDING:.0e}.\n\n"
        "Wrong on purpose: drafts accepted with min(1, 2 * target / draft), which is "
        "faster."
    )
    wrong = compare(target, lossy)
    found = largest_difference(*wrong) > 1e-3
    caught = "Found" if found else "NOT FOUND"
    print(
        f"\n{caught}. Sequences it produces too often or too rarely:\n"
        f"{difference_table(*wrong)}"
    )
    return 0 if agree and found else 1


def compare(target: GPT, case: Case) -> tuple[Distribution, Distribution]:
    """One line of the table: what the decoder writes, and what the target alone."""
    request = Request(torch.tensor([0, 1, 0]), N_NEW, case.sampling, GAMMA, case.judge)
    found = enumerate_outputs(
        lambda chance: generate(target, case.drafter, request, chance).tokens
    )
    expected = output_distribution(
        lambda chance: generate_alone(target, request, chance).tokens
    )
    drafter, decoding = case.named
    print(
        f"{drafter:<9}{decoding:<10}{len(found.distribution):>9}{found.n_branches:>10}"
        f"{largest_difference(found.distribution, expected):>11.1e}",
        flush=True,
    )
    return found.distribution, expected


def tiny_gpt(seed: int) -> GPT:
    """Random weights, large enough for the models to have opinions."""
    config = GPTConfig(1, n_head=2, n_embd=8, vocab_size=V, n_positions=16)
    model = GPT(config).to(torch.float64)
    model.initialize(torch.Generator().manual_seed(seed), std=0.5)
    return model.eval().requires_grad_(False)

"""`minispec prove`: every outcome of chance, with and without a draft, compared."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from minispec import autoregressive, speculative
from minispec.draft import Drafter, ModelDrafter
from minispec.drafters.ngram import NgramDrafter
from minispec.exactness import (
    ROUNDING,
    Enumeration,
    comparison,
    enumerate_law,
    largest_difference,
)
from minispec.gpt2 import GPT, GPTConfig
from minispec.randomness import Randomness
from minispec.sampling import Sampling

DESCRIPTION = """\
Run the real decoders down every branch of chance, on models so tiny that this can be
done, and compare the probability of every text they can write with what the target
alone would give it. Then the same with a decoder that is wrong on purpose.
"""
V, GAMMA, N_NEW, EOS = 3, 3, 5, 2
PROMPT = (0, 1, 0)
SAMPLED, GREEDY = Sampling(temperature=1.5), Sampling(temperature=0)
CASES = (
    ("model", "sampled", SAMPLED),
    ("model", "top-k 2", Sampling(temperature=1.5, top_k=2)),
    ("model", "greedy", GREEDY),
    ("ngram", "sampled", SAMPLED),
    ("ngram", "greedy", GREEDY),
)


@dataclass(frozen=True)
class Models:
    """The pair that is decoded with."""

    target: GPT
    draft: GPT


class Lenient:
    """Keeps drafts too readily: with chance min(1, 2 * target / draft).

    Leviathan et al. 2023, appendix A.5, call it lenience: faster, and another law.
    """

    def __init__(self, randomness: Randomness) -> None:
        self.randomness = randomness

    def sample(self, probs: Tensor) -> int:
        return self.randomness.sample(probs)

    def leading_accepts(self, ratios: Tensor) -> int:
        return self.randomness.leading_accepts(2 * ratios)


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    parser = commands.add_parser(
        "prove",
        help="enumerate all that can come out, and compare the laws",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="N",
        help="which random weights the models have (%(default)s); some have ten times "
        "the branches and take half a minute",
    )
    parser.set_defaults(run=run_prove)


def run_prove(args: argparse.Namespace) -> int:
    """Exit status 0 if all laws agree and the wrong decoder is found, else 1."""
    if not 0 <= args.seed < 2**32:
        raise ValueError(f"seed must be from 0 to {2**32 - 1}, got {args.seed}")
    models = Models(tiny_gpt(args.seed), tiny_gpt(args.seed + 1))
    print(
        f"Two tiny models in float64: {V} tokens, one of them an EOS; texts of up to "
        f"{N_NEW} tokens,\ndrafts of {GAMMA}. Each branch of chance is one run of the "
        "real decoder, caches and all.\n"
    )
    print("drafter  decoding  sequences  branches  largest difference to the target")
    differences = [prove_case(models, *case) for case in CASES]
    agree = max(differences) <= ROUNDING
    verdict = "The laws are the same" if agree else "THE LAWS DIFFER"
    print(f"\n{verdict}: {max(differences):.1e} at most, tolerance {ROUNDING:.0e}.\n")
    return 0 if refute_lenient(models) and agree else 1


def prove_case(models: Models, kind: str, decoding: str, sampling: Sampling) -> float:
    """One line of the table; returns the largest difference."""
    alone = enumerate_law(without_draft(models, sampling))
    found = enumerate_law(with_draft(models, kind, sampling))
    difference = largest_difference(found.law, alone.law)
    print(
        f"{kind:<9}{decoding:<10}{len(found.law):>9}{found.n_branches:>10}"
        f"{difference:>11.1e}",
        flush=True,
    )
    return difference


def refute_lenient(models: Models) -> bool:
    """Show what a wrong acceptance does to the law; whether it was found."""
    right = enumerate_law(without_draft(models, SAMPLED))
    decode = with_draft(models, "model", SAMPLED)
    wrong: Enumeration = enumerate_law(lambda chance: decode(Lenient(chance)))
    difference = largest_difference(wrong.law, right.law)
    print(
        "Wrong on purpose: drafts kept with chance min(1, 2 * target / draft), which "
        "is faster.\nThe sequences it produces too often or too rarely:\n"
    )
    print(comparison(wrong.law, right.law))
    found = difference > 1e-3
    verdict = "Found" if found else "NOT FOUND"
    print(f"\n{verdict}: the laws differ by up to {difference:.3f}.")
    return found


def without_draft(
    models: Models, sampling: Sampling
) -> Callable[[Randomness], tuple[int, ...]]:
    """The target alone, as a function of chance."""
    prompt = torch.tensor(PROMPT)
    return lambda chance: autoregressive.generate(
        models.target, prompt, N_NEW, chance, sampling, (EOS,)
    ).tokens


def with_draft(
    models: Models, kind: str, sampling: Sampling
) -> Callable[[Randomness], tuple[int, ...]]:
    """The speculative decoder with this drafter, as a function of chance."""
    prompt = torch.tensor(PROMPT)
    drafter: Drafter = NgramDrafter(V, longest=2)
    if kind == "model":
        drafter = ModelDrafter(models.draft, sampling)
    return lambda chance: speculative.generate(
        models.target, drafter, prompt, GAMMA, N_NEW, chance, sampling, (EOS,)
    ).tokens


def tiny_gpt(seed: int) -> GPT:
    """Random weights, large enough for the models to have opinions."""
    config = GPTConfig(1, n_head=2, n_embd=8, vocab_size=V, n_positions=16)
    model = GPT(config).to(torch.float64)
    model.initialize(torch.Generator().manual_seed(seed), std=0.5)
    return model.eval().requires_grad_(False)

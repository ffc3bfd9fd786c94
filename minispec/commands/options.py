"""The options that `generate` and `compare` share, and what they ask for."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from minispec.commands.prompt import add_prompt_options, read_prompt
from minispec.commands.threads import settle_threads
from minispec.draft import Drafter, ModelDrafter
from minispec.drafters.ngram import NgramDrafter
from minispec.pair import SHIPPED, Pair, load_pair
from minispec.sampling import Sampling
from minispec.stopping import Limits


@dataclass(frozen=True)
class Request:
    """A decode, ready to start."""

    pair: Pair
    drafter: Drafter | None  # None: the target alone
    text: str
    prompt: Tensor  # [n]
    limits: Limits
    sampling: Sampling
    gamma: int
    seed: int


def at_least(lowest: int) -> Callable[[str], int]:
    """A type for argparse: whole numbers from `lowest` on."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = lowest - 1
        if value < lowest:
            raise argparse.ArgumentTypeError(
                f"expected a whole number, {lowest} or more, got {text[:40]!r}"
            )
        return value

    return number


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Everything that says what to decode, with what, and how."""
    what = parser.add_argument_group("what to write")
    add_prompt_options(what)
    what.add_argument(
        "--tokens",
        type=at_least(0),
        default=200,
        metavar="N",
        help="how many tokens to write at most (%(default)s)",
    )
    who = parser.add_argument_group("who writes")
    who.add_argument(
        "--target",
        type=Path,
        default=SHIPPED / "target",
        metavar="FOLDER",
        help="checkpoint folder of the large model, the one that the text is "
        "distributed as (default: the shipped one)",
    )
    who.add_argument(
        "--draft",
        type=Path,
        default=SHIPPED / "draft",
        metavar="FOLDER",
        help="checkpoint folder of the small model that guesses ahead; it needs the "
        "target's vocabulary (default: the shipped one)",
    )
    who.add_argument(
        "--drafter",
        choices=("model", "ngram", "none"),
        default="model",
        help="who guesses: the draft model; ngram, which copies what followed the same "
        "words before and needs no model; or none (%(default)s)",
    )
    who.add_argument(
        "--gamma",
        type=at_least(1),
        default=4,
        metavar="N",
        help="how many tokens to guess before the target checks them: more gain if "
        "they are right, more waste if not (%(default)s)",
    )
    add_sampling_options(parser)


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """How a token is drawn from the model's distribution."""
    add = parser.add_argument_group("how tokens are drawn").add_argument

    def number(name: str, default: float, metavar: str, says: str) -> None:
        add(name, type=float, default=default, metavar=metavar, help=says)

    flatter = "below 1 bolder on the probable, 0 always the most probable (%(default)s)"
    number("--temperature", 0.8, "T", flatter)
    most = "only the K most probable tokens (default: all)"
    add("--top-k", type=at_least(1), metavar="K", help=most)
    nucleus = "only the most probable tokens that together have mass P (%(default)s)"
    number("--top-p", 1.0, "P", nucleus)
    relative = "only tokens of at least F times the highest probability (%(default)s)"
    number("--min-p", 0.0, "F", relative)
    repeats = "above 1, tokens already in the text weigh less (%(default)s)"
    number("--repetition-penalty", 1.0, "R", repeats)
    add(
        "--min-tokens",
        type=at_least(0),
        default=0,
        metavar="N",
        help="no end of text among the first N tokens (%(default)s)",
    )
    add(
        "--seed",
        type=at_least(0),
        default=1,
        metavar="N",
        help="same seed, same text (%(default)s)",
    )


def request_from(args: argparse.Namespace) -> Request:
    """Load and check everything that the options name.

    Raises ValueError or OSError with a sentence for the user.
    """
    sampling = Sampling(
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
    )
    text = read_prompt(args)
    pair = load_pair(args.target, args.draft if args.drafter == "model" else None)
    settle_threads(pair.target)
    eos_ids = (pair.tokenizer.eos_id,)
    prompt = torch.tensor(pair.tokenizer.encode(text))
    n_positions = pair.target.config.n_positions
    limits = Limits.for_request(len(prompt), args.tokens, eos_ids, n_positions)
    if args.min_tokens:
        sampling = replace(sampling, eos_ids=eos_ids)
        sampling = sampling.with_min_new_tokens(len(prompt), args.min_tokens)
    drafter = make_drafter(args.drafter, pair, sampling)
    return Request(
        pair, drafter, text, prompt, limits, sampling, args.gamma, args.seed
    )


def make_drafter(kind: str, pair: Pair, sampling: Sampling) -> Drafter | None:
    """The drafter of that name; the draft model samples just as the target does."""
    if kind == "ngram":
        return NgramDrafter(pair.tokenizer.vocab_size)
    if pair.draft is None:
        return None
    return ModelDrafter(pair.draft, sampling)

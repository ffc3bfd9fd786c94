"""The options that `generate` and `compare` share, and what they ask for."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from minispec.draft import Drafter, ModelDrafter
from minispec.drafters.ngram import NgramDrafter
from minispec.pair import SHIPPED, Pair, load_pair
from minispec.sampling import Sampling
from minispec.stopping import Limits

PROMPT = "KING HENRY V:\nWhat news, good cousin, from the walls of France?\n"


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


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """Everything that says what to decode, with what, and how."""
    what = parser.add_argument_group("what to write")
    given = what.add_mutually_exclusive_group()
    given.add_argument(
        "--prompt",
        metavar="TEXT",
        help="the text to go on from; - reads standard input (default: a line of "
        "Shakespeare)",
    )
    given.add_argument(
        "--prompt-file", metavar="FILE", help="the same from a UTF-8 file, or -"
    )
    what.add_argument(
        "--tokens",
        type=int,
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
        help="checkpoint folder of the model whose law the text has (the shipped one)",
    )
    who.add_argument(
        "--draft",
        type=Path,
        default=SHIPPED / "draft",
        metavar="FOLDER",
        help="checkpoint folder of the small model that guesses ahead (the shipped one)",
    )
    who.add_argument(
        "--drafter",
        choices=("model", "ngram", "none"),
        default="model",
        help="guess with the draft model, by copying from the text, or not at all "
        "(%(default)s)",
    )
    who.add_argument(
        "--gamma",
        type=int,
        default=4,
        metavar="N",
        help="how many tokens to draft per round (%(default)s)",
    )
    add_sampling_options(parser)


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """How a token is drawn from the model's distribution."""
    how = parser.add_argument_group("how tokens are drawn")
    add = how.add_argument
    add("--temperature", type=float, default=0.8, metavar="T", help="0 is greedy (0.8)")
    add("--top-k", type=int, metavar="K", help="only the K most probable tokens")
    add("--top-p", type=float, default=1.0, metavar="P", help="only the top mass P")
    add(
        "--min-p",
        type=float,
        default=0.0,
        metavar="F",
        help="only tokens of at least F times the highest probability",
    )
    add(
        "--repetition-penalty",
        type=float,
        default=1.0,
        metavar="R",
        help="above 1, tokens already in the text weigh less",
    )
    add(
        "--min-tokens",
        type=int,
        default=0,
        metavar="N",
        help="no end of text among the first N tokens",
    )
    add("--seed", type=int, default=1, metavar="N", help="same seed, same text (1)")


def request_from(args: argparse.Namespace) -> Request:
    """Load and check everything that the options name.

    Raises ValueError or OSError with a sentence for the user.
    """
    if args.gamma < 1:
        raise ValueError(f"gamma must be at least 1, got {args.gamma}")
    sampling = sampling_from(args)
    text = read_prompt(args)
    draft = args.draft if args.drafter == "model" else None
    pair = load_pair(args.target, draft)
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


def sampling_from(args: argparse.Namespace) -> Sampling:
    """The options as a `Sampling`, which checks them."""
    return Sampling(
        temperature=args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
    )


def make_drafter(kind: str, pair: Pair, sampling: Sampling) -> Drafter | None:
    """The drafter of that name; the draft model samples just as the target does."""
    if kind == "ngram":
        return NgramDrafter(pair.tokenizer.vocab_size)
    if pair.draft is None:
        return None
    return ModelDrafter(pair.draft, sampling)


def read_prompt(args: argparse.Namespace) -> str:
    """The prompt from wherever the options say it is; never empty."""
    source = args.prompt_file or (args.prompt if args.prompt == "-" else None)
    try:
        if source == "-":
            text = sys.stdin.buffer.read().decode("utf-8")
        elif source is not None:
            text = Path(source).read_bytes().decode("utf-8")
        else:
            text = PROMPT if args.prompt is None else args.prompt
    except UnicodeDecodeError as error:
        name = "standard input" if source == "-" else source
        raise ValueError(
            f"{name} is not UTF-8 (byte {error.start}): convert it to UTF-8 first"
        ) from error
    if not text:
        raise ValueError("the prompt is empty: give at least one character")
    return text

"""The options that every decoding command shares, and the job they describe."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch

from minispec.commands.ending import at_least
from minispec.commands.prompt import add_prompt_options, check_text, read_prompt
from minispec.commands.threads import settle_threads
from minispec.core.draft import Drafter, ModelDrafter
from minispec.core.sampling import Sampling
from minispec.core.text import Request
from minispec.drafters.ngram import NgramDrafter
from minispec.files.pair import SHIPPED, Pair, load_pair

SAFER = "lower is safer, 0 always takes the most probable token"


@dataclass(frozen=True)
class Job:
    """A decode, ready to start."""

    pair: Pair
    drafter: Drafter | None  # None: the target alone
    text: str  # the prompt
    request: Request
    seed: int
    stops: tuple[str, ...] = ()  # the text ends before the first of these

    @property
    def gamma(self) -> int:
        """How many tokens to draft each round."""
        return cast(int, self.request.gamma)


def add_decoding_parser(
    commands: "argparse._SubParsersAction",
    run: Callable[[argparse.Namespace], int],
    name: str,
    texts: tuple[str, str, str],  # help, description, examples
    drafters: tuple[str, ...] = ("model", "ngram"),
) -> argparse.ArgumentParser:
    """Register a command with everything that says what to decode, with what, how."""
    says, description, examples = texts
    parser = commands.add_parser(
        name,
        help=says,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_text_options(parser)
    add_model_options(parser, drafters)
    add_sampling_options(parser)
    parser.set_defaults(run=run)
    return parser


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Where the text begins, and where it ends."""
    group = parser.add_argument_group("what to write")
    add_prompt_options(group)
    add, count = group.add_argument, at_least(0)
    most = "how many tokens to write at most (%(default)s)"
    add("--tokens", type=count, default=200, metavar="N", help=most)
    least = "no end of text among the first N tokens (%(default)s)"
    add("--min-tokens", type=count, default=0, metavar="N", help=least)
    eos = "a token that ends the text; may be repeated (default: as the folder states)"
    add("--eos-id", type=count, action="append", metavar="ID", help=eos)
    stop = "end the text before TEXT, which is not part of the output; may be repeated"
    add("--stop", action="append", default=[], metavar="TEXT", help=stop)


def add_model_options(
    parser: argparse.ArgumentParser, drafters: tuple[str, ...]
) -> None:
    """Who decides, who guesses, and how far."""
    add = parser.add_argument_group("who writes").add_argument
    for role, says in (
        ("target", "the large model, whose distribution the text has"),
        ("draft", "the small model, which guesses ahead; it needs the same vocabulary"),
    ):
        says = f"checkpoint folder of {says} (default: the shipped one)"
        add(f"--{role}", type=Path, default=SHIPPED / role, metavar="FOLDER", help=says)
    who = "who guesses: the draft model, or ngram, which copies what followed the same "
    who += "words before and needs no model (%(default)s)"
    who += "; none is the target alone" if "none" in drafters else ""
    add("--drafter", choices=drafters, default="model", help=who)
    ahead = "how many tokens to guess before the target verifies them: more gain if "
    ahead += "they are right, more waste if not (%(default)s)"
    add("--gamma", type=at_least(1), default=4, metavar="N", help=ahead)


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """How a token is drawn from the model's distribution."""
    add = parser.add_argument_group("how tokens are drawn").add_argument
    for name, metavar, default, says in (
        ("--temperature", "T", 0.8, SAFER),
        ("--top-p", "P", 1.0, "only the most probable tokens that reach mass P"),
        ("--min-p", "F", 0.0, "only tokens of F times the highest probability or more"),
        ("--repetition-penalty", "R", 1.0, "above 1, tokens of the text weigh less"),
    ):
        says += " (%(default)s)"
        add(name, type=float, default=default, metavar=metavar, help=says)
    most = "only the K most probable tokens (default: all)"
    add("--top-k", type=at_least(1), metavar="K", help=most)
    seed = "same seed, same text (%(default)s)"
    add("--seed", type=at_least(0), default=1, metavar="N", help=seed)


def job_from(args: argparse.Namespace) -> Job:
    """Load and check everything that the options name.

    Raises ValueError or OSError with a sentence for the user.
    """
    sampling = sampling_from(args)
    for stop in args.stop:
        check_text("--stop", stop)
    text = read_prompt(args)
    pair = load_pair(args.target, args.draft if args.drafter == "model" else None)
    settle_threads(pair.target)
    prompt = torch.tensor(pair.tokenizer.encode(text))
    sampling = replace(sampling, eos_ids=eos_ids(args, pair))
    if args.min_tokens:
        sampling = sampling.with_min_new_tokens(len(prompt), args.min_tokens)
    request = Request(prompt, args.tokens, sampling, args.gamma)
    request.limits(pair.target.config)  # raises for a prompt that does not fit
    drafter = make_drafter(args.drafter, pair, sampling)
    if args.drafter != "model" and args.draft != SHIPPED / "draft":
        print(f"--draft is not used with --drafter {args.drafter}", file=sys.stderr)
    return Job(pair, drafter, text, request, args.seed, tuple(args.stop))


def sampling_from(args: argparse.Namespace) -> Sampling:
    """What the options say of the distribution; the EOS ids come with the target."""
    names = "temperature", "top_k", "top_p", "min_p", "repetition_penalty"
    return Sampling(**{name: getattr(args, name) for name in names})


def eos_ids(args: argparse.Namespace, pair: Pair) -> tuple[int, ...]:
    """What --eos-id says; else what the target's folder states."""
    if args.eos_id is None:
        return pair.eos_ids
    V = pair.target.config.vocab_size
    if max(args.eos_id) >= V:
        raise ValueError(f"--eos-id must be below {V}, got {max(args.eos_id)}")
    return tuple(args.eos_id)


def make_drafter(kind: str, pair: Pair, sampling: Sampling) -> Drafter | None:
    """The drafter of that name; the draft model samples just as the target does."""
    if kind == "ngram":
        return NgramDrafter(pair.tokenizer.vocab_size)
    return ModelDrafter(pair.draft, sampling) if pair.draft else None

"""The options that every decoding command shares, and the job they describe."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch

from minispec.commands.ending import at_least
from minispec.commands.methods import (
    DRAFTERS,
    JUDGES,
    WHO,
    Decoding,
    check_method,
    dtype_from,
    gamma_from,
    length_from,
    load_drafter,
    tree_from,
)
from minispec.commands.prompt import add_prompt_options, check_text, read_prompt
from minispec.commands.ranks import own_device, split_among_ranks
from minispec.commands.threads import settle_threads
from minispec.core.sampling import Sampling
from minispec.core.text import Request
from minispec.files.pair import DEVICES, SHIPPED, Pair, load_pair
from minispec.judges import LOSSY
from minispec.model.gpt2 import GPT

DTYPES = "float32", "bfloat16", "float16", "float64"
SAFER = "lower is safer, 0 always takes the most probable token"


class Method(NamedTuple):
    """What the options name, for tables and pages."""

    drafter: str
    judge: str
    length: str  # "4", "auto", "tree 3,2,1"
    coupled: bool
    vocabulary: str = ""  # how a draft model's tokens become the target's, and why


@dataclass(frozen=True)
class Job:
    """A decode, ready to start."""

    pair: Pair
    drafter: Decoding | None  # None: the target alone
    text: str  # the prompt
    request: Request
    seed: int
    method: Method
    stops: tuple[str, ...] = ()  # the text ends before the first of these

    @property
    def target(self) -> GPT:
        """What decodes: the target, or what its drafter puts in its place."""
        return getattr(self.drafter, "target", self.pair.target)


def add_decoding_parser(
    commands: "argparse._SubParsersAction",
    run: Callable[[argparse.Namespace], int],
    name: str,
    texts: tuple[str, str, str],  # help, description, examples
    drafters: tuple[str, ...] = DRAFTERS,
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
    add_method_options(add_model_options(parser, drafters))
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
) -> "argparse._ArgumentGroup":
    """Who decides, who guesses, and how far."""
    group = parser.add_argument_group("who writes")
    add = group.add_argument
    says = "checkpoint folder of the large model, whose distribution the text has "
    says += "(default: the shipped one)"
    add("--target", type=Path, default=SHIPPED / "target", metavar="FOLDER", help=says)
    says = "folder of the small model or head that guesses ahead; a model may speak "
    says += "another vocabulary (default: the shipped one)"
    add("--draft", type=Path, metavar="FOLDER", help=says)
    none = "; none is the target alone" if "none" in drafters else ""
    add("--drafter", choices=drafters, default="model", help=WHO + none)
    ahead = "how many tokens to guess before the target verifies them: more gain if "
    ahead += "they are right, more waste if not; history follows what was accepted, "
    ahead += "auto what pays best by costs measured first, so that the text depends on "
    ahead += "them and not on the seed alone (%(default)s)"
    add("--gamma", type=gamma_from, default=4, metavar="N", help=ahead)
    where = "where the models run; auto is the fastest device there is (%(default)s)"
    add("--device", choices=("auto", *DEVICES), default="auto", help=where)
    kind = "the type of their numbers; probabilities are never narrower than float32 "
    kind += "(%(default)s)"
    add("--dtype", choices=DTYPES, default="float32", help=kind)
    return group


def add_method_options(group: "argparse._ArgumentGroup") -> None:
    """How drafts are laid out and judged."""
    add = group.add_argument
    shape = "draft a tree: how many nodes on each level, such as 3,2,1; or how many in "
    shape += "all, such as 12, where the draft is surest"
    add("--tree", type=tree_from, metavar="SHAPE", help=shape)
    who = "which drafts stay: reject and block are exact, block accepts more; the "
    who += "others are lossy (%(default)s)"
    add("--judge", choices=JUDGES, default="reject", help=who)
    same = "draw from noise that --seed fixes for each position: whoever drafts, the "
    same += "text is the same"
    add("--coupled", action="store_true", help=same)
    file = "a text that --drafter suffix has read before"
    add("--history", metavar="FILE", help=file)


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
    check_method(args)
    for stop in args.stop:
        check_text("--stop", stop)
    text = read_prompt(args)
    pair = pair_from(args)
    prompt = torch.tensor(pair.tokenizer.encode(text))
    sampling = replace(sampling, eos_ids=eos_ids(args, pair))
    if args.min_tokens:
        sampling = sampling.with_min_new_tokens(len(prompt), args.min_tokens)
    request = Request(prompt, args.tokens, sampling, judge=JUDGES[args.judge])
    request.limits(pair.target.config)  # raises for a prompt that does not fit
    drafter = load_drafter(args, pair, sampling)
    stops = tuple(args.stop)
    job = Job(pair, drafter, text, request, args.seed, method_of(args), stops)
    gamma = length_from(args.gamma, job.target, drafter, request)
    warn(args)
    return replace(job, request=replace(request, gamma=gamma))


def method_of(args: argparse.Namespace) -> Method:
    """What the options name."""
    shape = ",".join(map(str, args.tree or ()))
    length = f"tree {shape}" if shape else str(args.gamma)
    vocabulary = getattr(args, "why", "")
    return Method(args.drafter, args.judge, length, args.coupled, vocabulary)


def warn(args: argparse.Namespace) -> None:
    """Say on standard error what might not be meant."""
    if args.judge in LOSSY and args.drafter != "none":
        print(
            f"--judge {args.judge} is lossy: the text's distribution is another one "
            "than the target's",
            file=sys.stderr,
        )
    if args.draft and args.drafter in ("ngram", "suffix", "none"):
        print(f"--draft is not used with --drafter {args.drafter}", file=sys.stderr)
    if args.tree and args.gamma != 4:
        print("--gamma is not used with --tree", file=sys.stderr)


def pair_from(args: argparse.Namespace, draft: Path | None = None) -> Pair:
    """The target, where and as the options say; with a draft, one of its vocabulary.

    Raises as `load_pair` does.
    """
    device, dtype = own_device(args.device), dtype_from(args)
    pair = load_pair(args.target, draft, device, dtype, split_among_ranks)
    settle_threads(pair.target)
    return pair


def sampling_from(args: argparse.Namespace) -> Sampling:
    """What the options say of the distribution; the EOS ids come with the target."""
    names = "temperature", "top_k", "top_p", "min_p", "repetition_penalty"
    noise_seed = args.seed if getattr(args, "coupled", False) else None
    fields = {name: getattr(args, name) for name in names}
    return Sampling(**fields, noise_seed=noise_seed)


def eos_ids(args: argparse.Namespace, pair: Pair) -> tuple[int, ...]:
    """What --eos-id says; else what the target's folder states."""
    if args.eos_id is None:
        return pair.eos_ids
    V = pair.target.config.vocab_size
    if max(args.eos_id) >= V:
        raise ValueError(f"--eos-id must be below {V}, got {max(args.eos_id)}")
    return tuple(args.eos_id)

"""The decode that the options describe: loaded, checked, ready to start."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch

from minispec.commands.methods import (
    JUDGES,
    Decoding,
    check_method,
    draft_folder,
    dtype_from,
    length_from,
    load_drafter,
)
from minispec.commands.prompt import check_text, read_prompt
from minispec.commands.ranks import own_device, split_among_ranks
from minispec.commands.threads import settle_threads
from minispec.core.sampling import Sampling
from minispec.core.text import Request
from minispec.files.pair import Pair, load_pair
from minispec.judges import LOSSY
from minispec.model.gpt2 import GPT
from minispec.trees.choices import is_certain


class Method(NamedTuple):
    """What the options name, for tables and pages."""

    target: str  # the folder
    draft: str | None  # the folder; None: the drafter has none
    drafter: str
    judge: str
    gamma: int | str | None  # None: a tree
    tree: list[int] | None
    coupled: bool
    history: str | None  # the file
    vocabulary: str  # how a draft model's tokens become the target's, and why

    @property
    def length(self) -> str:
        """How far is drafted: "gamma 4", "gamma auto", "tree 3,2,1"."""
        if self.tree is None:
            return f"gamma {self.gamma}"
        return f"tree {','.join(map(str, self.tree))}"

    @property
    def rule(self) -> str:
        """What decides over drafts: the name of the judge, or "tree"."""
        return "tree" if self.tree else self.judge


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

    @property
    def is_lossy(self) -> bool:
        """Whether the text may have another distribution than the target's."""
        return self.method.judge in LOSSY and not is_certain(self.request.sampling)


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
    warn(job, args)
    return replace(job, request=replace(request, gamma=gamma))


def method_of(args: argparse.Namespace) -> Method:
    """What the options name."""
    folder, gamma = draft_folder(args), None if args.tree else args.gamma
    target, draft = str(args.target), str(folder) if folder else None
    who, why = (args.drafter, args.judge), getattr(args, "why", "")
    how = args.coupled, args.history
    return Method(target, draft, *who, gamma, args.tree, *how, why)


def warn(job: Job, args: argparse.Namespace) -> None:
    """Say on standard error what might not be meant."""
    if job.is_lossy and job.drafter is not None:
        print(
            f"--judge {args.judge} is lossy: the text does not have the target's "
            "distribution",
            file=sys.stderr,
        )
    warn_of_draft(args)
    if args.tree and args.gamma != 4:
        print("--gamma is not used with --tree", file=sys.stderr)


def warn_of_draft(args: argparse.Namespace) -> None:
    """Say that no folder is read, if one is given."""
    if args.draft and draft_folder(args) is None:
        print(f"--draft is not used with --drafter {args.drafter}", file=sys.stderr)


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
    check_eos("--eos-id", args.eos_id, pair)
    return tuple(args.eos_id)


def check_eos(name: str, ids: Collection[int], pair: Pair) -> None:
    """Raise ValueError for an id that is no token of the target."""
    V = pair.target.config.vocab_size
    if max(ids, default=0) >= V:
        raise ValueError(f"{name} must be below {V}, got {max(ids)!r:.80}")

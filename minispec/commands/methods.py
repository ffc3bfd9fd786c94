"""The methods by name: what --drafter, --judge, --gamma and --tree mean."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TypeGuard, cast

import torch

from minispec.commands.costs import measured_costs
from minispec.commands.prompt import text_of_file
from minispec.commands.ranks import own_device, several
from minispec.core.draft import Drafter
from minispec.core.lengths import accepted_history, best_length
from minispec.core.rounds import Length
from minispec.core.sampling import Sampling
from minispec.core.text import Request
from minispec.drafters.medusa import MedusaDrafter
from minispec.drafters.ngram import NgramDrafter
from minispec.drafters.suffix import SuffixDrafter, SuffixIndex, SuffixTrees
from minispec.drafters.vocabularies import drafter_for
from minispec.files.head import load_head
from minispec.files.pair import SHIPPED, Pair, load_packed
from minispec.judges import EXACT, LOSSY
from minispec.model.gpt2 import GPT
from minispec.trees.choices import is_certain
from minispec.trees.drafters import BestTrees, FixedTrees
from minispec.trees.factorised import FactorisedTrees
from minispec.trees.ngram import NgramTrees
from minispec.trees.shape import best_shape_of, from_widths
from minispec.trees.tree import TreeDrafter

HEADS = ("eagle", "eagle3", "mtp", "medusa", "early-exit", "block-diffusion")
DRAFTERS = ("model", "ngram", "suffix", *HEADS)
JUDGES = EXACT | LOSSY
Decoding = Drafter | TreeDrafter
# Drawn children: how often the shipped draft's first, second, ... is the one accepted
RANKS, DEPTH = (0.78, 0.08, 0.04, 0.02), 6
MOST_NODES = 200  # of a tree: thousands take minutes, and none of them pays


def gamma_from(text: str) -> int | str:
    """A type for argparse: how many tokens, or the name of a policy."""
    if text in ("auto", "history"):
        return text
    if text.isdecimal() and len(text) < 8 and 1 <= int(text) <= 10**6:
        return int(text)
    raise argparse.ArgumentTypeError(
        f"expected a whole number, 1 or more, auto or history, got {text[:40]!r}"
    )


def tree_from(text: str) -> list[int]:
    """A type for argparse: nodes of each level, or of the whole tree."""
    parts = text.split(",")
    widths = [int(one) for one in parts if one.isdecimal() and len(one) < 4]
    if len(widths) == len(parts) and min(widths) > 0 and sum(widths) <= MOST_NODES:
        return widths
    raise argparse.ArgumentTypeError(
        "expected how many nodes each level has, such as 3,2,1, or how many there are "
        f"in all, such as 12, and at most {MOST_NODES} in all, got {text[:40]!r}"
    )


def check_method(args: argparse.Namespace) -> None:
    """Raise ValueError for options that contradict each other."""
    if several() and args.drafter in HEADS:
        raise ValueError(
            f"--drafter {args.drafter} reads hidden states of an unsplit target: over "
            "several processes take model, ngram or suffix"
        )
    if several() and args.gamma == "auto":
        raise ValueError(
            "--gamma auto measures costs, which differ from process to process: over "
            "several give a number or history"
        )
    if args.tree and args.judge != "reject":
        raise ValueError(
            f"--judge {args.judge} judges chains: leave out --tree or --judge"
        )
    if args.tree and args.drafter not in ("model", "ngram", "suffix", "medusa"):
        raise ValueError(
            f"--drafter {args.drafter} drafts no trees: leave out --tree, or take "
            "model, ngram, suffix or medusa"
        )
    if args.tree and len(args.tree) == 1 and args.drafter == "medusa":
        raise ValueError("--drafter medusa needs a shape, such as --tree 3,2,1")
    if args.history is not None and args.drafter != "suffix":
        raise ValueError("--history is what --drafter suffix has read: add that")
    if args.history == "-" and "-" in (args.prompt, args.prompt_file):
        raise ValueError(
            "--history and the prompt cannot both be standard input: give one as a file"
        )


def draft_folder(args: argparse.Namespace) -> Path | None:
    """Where the draft model or the head lies; None where neither is needed."""
    if args.drafter not in ("model", *HEADS):
        return None
    shipped = "draft" if args.drafter == "model" else args.drafter
    return args.draft or SHIPPED / shipped


def load_drafter(
    args: argparse.Namespace, pair: Pair, sampling: Sampling
) -> Decoding | None:
    """The drafter that the options name, sampling just as the target does.

    None: the target alone. Raises ValueError or OSError with a sentence for the user.
    """
    V = pair.target.config.vocab_size
    tree = args.tree and (args.tree[0] if len(args.tree) == 1 else sum(args.tree))
    if args.drafter == "none":
        return None
    if args.drafter == "ngram":
        return NgramTrees(V, tree) if tree else NgramDrafter(V)
    if args.drafter == "suffix":
        history = history_of(args.history, pair)
        return SuffixTrees(V, tree, history) if tree else SuffixDrafter(V, history)
    folder = draft_folder(args)
    assert folder is not None
    if args.drafter == "model":
        return model_drafter(args, folder, pair, sampling)
    head = load_head(folder, pair.target, [args.drafter])
    drafter = head.drafter(pair.target, sampling)
    if args.tree and isinstance(drafter, MedusaDrafter):
        return FactorisedTrees(drafter, from_widths(args.tree))
    return drafter


def model_drafter(
    args: argparse.Namespace, folder: Path, pair: Pair, sampling: Sampling
) -> Decoding:
    """The draft model, as a chain or in trees, in its own vocabulary if need be."""
    model, own = load_packed(folder, own_device(args.device), dtype_from(args))
    if args.tree and not own.same_vocabulary(pair.tokenizer):
        raise ValueError("--tree needs a draft of the target's own vocabulary")
    if args.tree and len(args.tree) == 1 and is_certain(sampling):
        return BestTrees(model, args.tree[0], sampling)
    if args.tree and len(args.tree) == 1:
        return FixedTrees(model, best_shape_of(RANKS, args.tree[0], DEPTH), sampling)
    if args.tree:
        return FixedTrees(model, from_widths(args.tree), sampling)
    drafter, args.why = drafter_for(model, own, pair.tokenizer, sampling)
    return drafter


def is_tree(drafter: Decoding | None) -> TypeGuard[TreeDrafter]:
    """Whether it drafts trees."""
    return hasattr(drafter, "propose_tree")


def history_of(file: str | None, pair: Pair) -> SuffixIndex | None:
    """The texts of --history as the suffix drafter reads them."""
    if file is None:
        return None
    _, text = text_of_file(file, "history")
    history = SuffixIndex()
    history.add(pair.tokenizer.encode(text))
    return history


def dtype_from(args: argparse.Namespace) -> torch.dtype:
    """The type that --dtype names."""
    return getattr(torch, args.dtype)


def length_from(
    gamma: int | str, target: GPT, drafter: Decoding | None, request: Request
) -> int | Length:
    """The number or policy that --gamma names; auto measures what a draft costs."""
    if gamma == "history":
        return accepted_history()
    if gamma != "auto":
        return int(gamma)
    if drafter is None or is_tree(drafter):
        return 4  # which no one asks for
    return best_length(*measured_costs(target, cast(Drafter, drafter), request))

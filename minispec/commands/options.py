"""The options that every decoding command shares; `job` is what they describe."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from minispec.commands.ending import at_least
from minispec.commands.methods import DRAFTERS, JUDGES, gamma_from, tree_from
from minispec.commands.prompt import add_prompt_options
from minispec.files.pair import DEVICES, SHIPPED

DTYPES = "float32", "bfloat16", "float16", "float64"
GUESSES = "how many tokens to guess before the target verifies them"
SAFER = "lower is safer; 0 always takes the most probable token"
WHO = """what guesses: the draft model; ngram or suffix, which copy what followed the
same words earlier; or a head that reads the target's hidden states (%(default)s)"""


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
    who = WHO + ("; none is the target alone" if "none" in drafters else "")
    draft = "the draft model, or of the head that --drafter names"
    add_method_options(add_model_options(parser, drafters, who, draft))
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
    least = "do not end the text before N tokens (%(default)s)"
    add("--min-tokens", type=count, default=0, metavar="N", help=least)
    eos = "a token that ends the text; may be repeated (default: as the folder states)"
    add("--eos-id", type=count, action="append", metavar="ID", help=eos)
    stop = "end the text before TEXT, which is not part of the output; may be repeated"
    add("--stop", action="append", default=[], metavar="TEXT", help=stop)


def add_model_options(
    parser: argparse.ArgumentParser, drafters: tuple[str, ...], who: str, draft: str
) -> "argparse._ArgumentGroup":
    """Who decides and who guesses; the texts say what --drafter and --draft name."""
    group = parser.add_argument_group("who writes")
    add = group.add_argument
    says = "folder of the large model, whose distribution the text has "
    says += "(default: the shipped one)"
    add("--target", type=Path, default=SHIPPED / "target", metavar="FOLDER", help=says)
    says = f"folder of {draft} (default: the shipped one)"
    add("--draft", type=Path, metavar="FOLDER", help=says)
    add("--drafter", choices=drafters, default="model", help=who)
    where = "where the models run; auto is the fastest device there is (%(default)s)"
    add("--device", choices=("auto", *DEVICES), default="auto", help=where)
    kind = "type of the weights; probabilities are float32 or wider (%(default)s)"
    add("--dtype", choices=DTYPES, default="float32", help=kind)
    return group


def add_method_options(group: "argparse._ArgumentGroup") -> None:
    """How far to draft, in which form, and how drafts are judged."""
    add = group.add_argument
    ahead = f"{GUESSES}: a number; history, which follows how many were accepted; or "
    ahead += "auto, which measures costs and follows what pays, so that the same seed "
    ahead += "may give another text of the same distribution (%(default)s)"
    add("--gamma", type=gamma_from, default=4, metavar="N", help=ahead)
    shape = "draft a tree: the number of nodes on each level, such as 3,2,1; or of all "
    shape += "nodes, such as 12, placed where acceptance is most likely"
    add("--tree", type=tree_from, metavar="SHAPE", help=shape)
    who = "what decides which drafts stay: reject and block are exact, and block "
    who += "accepts more; the others change the text's distribution, but not with "
    who += "--coupled or --temperature 0 (%(default)s)"
    add("--judge", choices=JUDGES, default="reject", help=who)
    same = "let --seed alone fix the randomness of each position, so that the text "
    same += "does not depend on what guesses, nor how far"
    add("--coupled", action="store_true", help=same)
    file = "a text file that --drafter suffix copies from too"
    add("--history", metavar="FILE", help=file)


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """How a token is drawn from the model's distribution."""
    add = parser.add_argument_group("how tokens are drawn").add_argument
    for name, metavar, default, says in (
        ("--temperature", "T", 0.8, SAFER),
        ("--top-p", "P", 1.0, "keep the most probable tokens that together reach P"),
        ("--min-p", "F", 0.0, "keep tokens with F times the top probability or more"),
        ("--repetition-penalty", "R", 1.0, "above 1, repeated tokens are less likely"),
    ):
        says += " (%(default)s)"
        add(name, type=float, default=default, metavar=metavar, help=says)
    most = "keep the K most probable tokens (default: all)"
    add("--top-k", type=at_least(1), metavar="K", help=most)
    seed = "the same seed gives the same text (%(default)s)"
    add("--seed", type=at_least(0), default=1, metavar="N", help=seed)

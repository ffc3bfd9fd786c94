"""`minispec batch`: many prompts at once, each text as it would be alone."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from minispec.batches.drafting import BatchDrafter, BatchModelDrafter, EachAlone
from minispec.batches.drafting import NoDrafts
from minispec.batches.speculative import Done, generate_batch
from minispec.commands.ending import at_least
from minispec.commands.job import check_eos, pair_from, sampling_from, warn_of_draft
from minispec.commands.methods import draft_folder
from minispec.commands.options import GUESSES, add_model_options, add_sampling_options
from minispec.commands.prompt import check_text, text_of_file
from minispec.commands.streaming import write
from minispec.core.randomness import Seeded
from minispec.core.rounds import Generation
from minispec.checks import whole_number
from minispec.core.text import Request
from minispec.drafters.ngram import NgramDrafter
from minispec.files.pair import Pair

DESCRIPTION = """\
Continue many prompts at once: each pass of the target serves up to --rows of them, and
when a text ends, the next prompt takes its row. Each text is the one that `generate`
writes with the same options and seed, up to rounding, whatever its neighbours are.

--prompts is a file with a prompt on each line: plain text, or a JSON object that has a
"prompt" and, where they differ from the options, "tokens", "gamma", "seed", "eos_ids",
"temperature", "top_k", "top_p", "min_p", "repetition_penalty". The two may be mixed,
and blank lines are passed over. A prompt without a seed has --seed plus its number
among the prompts, counted from 0.

Standard output gets a line of JSON for each text as it ends: "index", "text",
"finish_reason" and figures, or "index" and "error". Progress goes to standard error.
"""
EXAMPLES = """\
examples:
  printf 'ROMEO:\\nJULIET:\\nNURSE:\\n' | minispec batch --prompts - --tokens 60
  minispec batch --prompts prompts.jsonl --rows 16 --drafter ngram > texts.jsonl
"""
OWN = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
FIELDS = ("prompt", "tokens", "gamma", "seed", "eos_ids", *OWN)
WHO = """what guesses: the draft model; ngram, which copies what followed the same words
earlier; or none (%(default)s)"""


class Item(NamedTuple):
    """One prompt, ready to be decoded."""

    request: Request
    randomness: Seeded


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    parser = commands.add_parser(
        "batch",
        help="continue many prompts at once",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, count = parser.add_argument_group("what to write").add_argument, at_least(0)
    where = "a prompt on each line, as text or as JSON; - is standard input"
    add("--prompts", required=True, metavar="FILE", help=where)
    most = "how many tokens to write at most in each text (%(default)s)"
    add("--tokens", type=count, default=100, metavar="N", help=most)
    rows = "how many texts share a pass (%(default)s)"
    add("--rows", type=at_least(1), default=8, metavar="N", help=rows)
    drafters = "model", "ngram", "none"
    group = add_model_options(parser, drafters, WHO, "the draft model")
    ahead = f"{GUESSES} (%(default)s)"
    group.add_argument("--gamma", type=at_least(1), default=4, metavar="N", help=ahead)
    add_sampling_options(parser)
    parser.set_defaults(run=run_batch)


def run_batch(args: argparse.Namespace) -> int:
    """Write texts as they end. Status 1 if a prompt failed, 130 after Ctrl-C."""
    name, text = text_of_file(args.prompts)
    lines = [line.rstrip("\r") for line in text.split("\n") if line.strip()]
    if not lines:
        raise ValueError(f"{name} holds no prompt: give one on each line")
    warn_of_draft(args)
    pair = pair_from(args, draft_folder(args))
    progress, status = Progress(len(lines)), 0
    try:
        for done in decoded(lines, args, pair):
            status = 1 if done.error is not None else status
            write(json.dumps(report(done, pair)) + "\n")
            progress.add(done)
    except KeyboardInterrupt:
        status = 130
    progress.close("interrupted" if status == 130 else "done")
    return status


def decoded(lines: list[str], args: argparse.Namespace, pair: Pair) -> Iterator[Done]:
    """Each prompt's text as it ends, with the prompt's number, counted from 0."""
    items: dict[int, Item] = {}
    for number, line in enumerate(lines):
        try:
            items[number] = item_of(stated_in(line), number, args, pair)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            yield Done(number, Generation(()), ValueError(str(error)))
    numbers = list(items)
    requests = [items[number].request for number in numbers]
    chances = [items[number].randomness for number in numbers]
    drafter = drafter_of(args.drafter, pair)
    for done in generate_batch(pair.target, drafter, requests, chances, args.rows):
        yield replace(done, index=numbers[done.index])


def stated_in(line: str) -> dict[str, Any]:
    """A line that begins like a JSON object is one; any other is a prompt."""
    if not line.lstrip().startswith("{"):
        return {"prompt": line}
    try:
        stated = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"begins like JSON and is not JSON ({error})") from error
    except ValueError as error:  # of thousands of digits
        raise ValueError("holds a number that is far too long: shorten it") from error
    if unknown := sorted(set(stated) - set(FIELDS)):
        known = ", ".join(FIELDS)
        raise ValueError(f"there is no field {unknown[0]!r:.80}; there are {known}")
    return stated


def item_of(
    stated: dict[str, Any], number: int, args: argparse.Namespace, pair: Pair
) -> Item:
    """The request of a line. Raises TypeError or ValueError for what cannot be."""
    prompt = stated.get("prompt")
    if not isinstance(prompt, str):
        raise ValueError(f'"prompt" must be a text, got {prompt!r:.80}')
    check_text("the prompt", prompt, "write each character, or both of its \\u escapes")
    for name, value in stated.items():
        each = value if isinstance(value, list) else [value]
        if any(isinstance(one, bool) for one in each):
            raise TypeError(f"{name} takes numbers, got {json.dumps(value):.80}")
    changed = {name: stated[name] for name in OWN if name in stated}
    eos_ids = stated.get("eos_ids", pair.eos_ids)
    sampling = replace(sampling_from(args), eos_ids=eos_ids, **changed)
    check_eos("eos_ids", sampling.eos_ids, pair)
    tokens = stated.get("tokens", args.tokens)
    gamma = whole_number("gamma", stated.get("gamma", args.gamma), least=1)
    ids = torch.tensor(pair.tokenizer.encode(prompt))
    seed = stated.get("seed", args.seed + number)
    return Item(Request(ids, tokens, sampling, gamma), Seeded(seed))


def drafter_of(kind: str, pair: Pair) -> BatchDrafter:
    """The drafter of that name, for a batch."""
    if pair.draft is not None:
        return BatchModelDrafter(pair.draft)
    V = pair.target.config.vocab_size
    return EachAlone(lambda text: NgramDrafter(V) if kind == "ngram" else NoDrafts(V))


def report(done: Done, pair: Pair) -> dict[str, object]:
    """One line of output."""
    if done.error is not None:
        return {"index": done.index, "error": str(done.error)}
    one = done.generation
    tokens = one.tokens[:-1] if one.finish_reason == "eos" else one.tokens
    return {
        "index": done.index,
        "text": pair.tokenizer.decode(tokens),
        "finish_reason": one.finish_reason,
        "tokens": one.emitted,
        "target_forwards": one.target_forwards,
        "acceptance_rate": one.acceptance_rate,
    }


class Progress:
    """A line on standard error, written over on a terminal."""

    def __init__(self, n_texts: int) -> None:
        self.n_texts, self.n_ended, self.n_tokens = n_texts, 0, 0
        self.started = time.perf_counter()

    def add(self, done: Done) -> None:
        """One text more."""
        self.n_ended += 1
        self.n_tokens += done.generation.emitted
        if sys.stderr.isatty():
            print(f"\r{self}", end="", file=sys.stderr, flush=True)

    def close(self, how: str) -> None:
        """The last line."""
        start = "\r" if sys.stderr.isatty() else ""
        print(f"{start}{self}; {how}", file=sys.stderr)

    def __str__(self) -> str:
        seconds = time.perf_counter() - self.started
        return (
            f"{self.n_ended} of {self.n_texts} texts, {self.n_tokens} tokens, "
            f"{self.n_tokens / seconds:.0f} per second"
        )

"""What the notebooks share beside figures: the shipped pair, prompts, and timing."""

from __future__ import annotations

import copy
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minispec import GPT, load_pair
from minispec.commands.threads import settle_threads
from minispec.files.pair import SHIPPED
from minispec.show.terminal import quoted

torch.set_grad_enabled(False)

PAIR = load_pair(SHIPPED / "target", SHIPPED / "draft")
TARGET, TOKENIZER = PAIR.target, PAIR.tokenizer
assert PAIR.draft is not None
DRAFT: GPT = PAIR.draft
settle_threads(TARGET)


def check(number: int | None = None) -> None:
    """Grade an exercise in your folder; without a number, all that you wrote."""
    script = Path(__file__).parents[1] / "scripts" / "exercises.py"
    chosen = [] if number is None else [str(number)]
    command = [sys.executable, str(script), "check", *chosen]
    done = subprocess.run(command, capture_output=True, text=True)
    print(done.stdout + done.stderr)


def passages() -> list[str]:
    """Beginnings of speeches from three plays that neither model was trained on."""
    path = Path(__file__).with_name("passages.txt")
    return path.read_text(encoding="utf-8").strip().split("\n\n")


def encode(text: str) -> Tensor:  # -> [n]
    return torch.tensor(TOKENIZER.encode(text))


def decode(tokens: Iterable[int]) -> str:
    return TOKENIZER.decode(tokens)


def words(tokens: Iterable[int]) -> str:
    """Tokens one by one, quoted, so that spaces and line ends show."""
    return " ".join(quoted(TOKENIZER, int(token)) for token in tokens)


def in_type(model: GPT, dtype: torch.dtype) -> GPT:
    """A copy with weights of another type: all arithmetic is then done in it."""
    return copy.deepcopy(model).to(dtype)


class Timed(NamedTuple):
    """One run of some work."""

    seconds: float
    result: Any


def by_turns(
    works: Mapping[str, Callable[[int], object]], repeats: int
) -> dict[str, list[Timed]]:
    """Run every work once per repeat.

    Whatever slows the machine for a while then slows all of them alike. A work gets the
    number of its repeat, for example as a seed.
    """
    runs: dict[str, list[Timed]] = {name: [] for name in works}
    for repeat in range(repeats):
        for name, work in works.items():
            began = time.perf_counter()
            result = work(repeat)
            runs[name].append(Timed(time.perf_counter() - began, result))
    return runs


def milliseconds(
    works: Mapping[str, Callable[[], object]], repeats: int = 15, calls: int = 4
) -> dict[str, float]:
    """Median time of one call of each, measured by turns after a warm-up."""
    for work in works.values():
        work()

    def many(work: Callable[[], object]) -> Callable[[int], None]:
        return lambda repeat: [work() for _ in range(calls)]

    runs = by_turns({name: many(work) for name, work in works.items()}, repeats)
    return {
        name: 1e3 * statistics.median(one.seconds for one in timed) / calls
        for name, timed in runs.items()
    }

"""What the notebooks share beside figures: the shipped pair, prompts, and timing."""

from __future__ import annotations

import copy
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from minispec.commands.threads import settle_threads
from minispec.gpt2 import GPT
from minispec.pair import SHIPPED, load_pair
from minispec.trace import quoted

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "scripts"))  # benchmark_costs.py and timing.py

from timing import interleave  # noqa: E402

torch.set_grad_enabled(False)

PAIR = load_pair(SHIPPED / "target", SHIPPED / "draft")
TARGET, TOKENIZER = PAIR.target, PAIR.tokenizer
settle_threads(TARGET)
assert PAIR.draft is not None
DRAFT: GPT = PAIR.draft


def passages() -> list[str]:
    """Beginnings of speeches from three plays that neither model was trained on."""
    text = (HERE / "passages.txt").read_text(encoding="utf-8")
    return text.strip().split("\n\n")


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


def n_parameters(model: GPT) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def milliseconds(
    works: Mapping[str, Callable[[], object]], repeats: int = 15, calls: int = 4
) -> dict[str, float]:
    """Median time of one call of each, measured by turns after a warm-up."""

    def many(work: Callable[[], object]) -> Callable[[int], None]:
        def run(repeat: int) -> None:
            for _ in range(calls):
                work()

        return run

    for work in works.values():
        work()
    taken: dict[str, list[float]] = {name: [] for name in works}
    for sample in interleave({k: many(w) for k, w in works.items()}, repeats):
        taken[sample.name].append(1e3 * sample.seconds / calls)
    return {name: statistics.median(times) for name, times in taken.items()}

"""What `benchmark.py --shape` measures: passes of a model of known shape, not texts.

A pass over few tokens cannot be faster than reading every weight once. So beside the
milliseconds of a step and of verifications stands what reading as many bytes takes
here, and how much of that bandwidth a step reaches. The weights are random: no number
depends on their values.
"""

from __future__ import annotations

import copy
import statistics
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from benchmark_methods import interleave
from benchmark_report import machine
from measure_loading import SHAPES, fill

from minispec.model.gpt2 import GPT, GPTConfig
from minispec.model.packed import pack

ROWS = 1, 5, 9, 13  # a step, and verifications of 4, 8 and 12 drafts
CONTEXT = 128  # tokens in the cache
Work = Callable[[int], object]


def report_of_shape(shape: str, repeats: int, with_transformers: bool) -> str:
    """Time every pass `repeats` times, interleaved, and show the medians."""
    plain = fill(GPT(SHAPES[shape])).eval().requires_grad_(False)
    n_bytes = 4 * (plain.n_parameters - plain.wpe.weight.numel())
    numbers = torch.zeros(n_bytes // 4)
    works: dict[str, Work] = {"read": lambda repeat: numbers.sum()}
    kinds = {"plain": passes(plain), "packed": passes(pack(copy.deepcopy(plain)))}
    if with_transformers:
        kinds |= transformers_passes(SHAPES[shape])
    for kind, each in kinds.items():
        works |= {f"{kind} {n}": work for n, work in each.items()}
    for work in works.values():
        work(0)
    taken: dict[str, list[float]] = {}
    with torch.inference_mode():
        for sample in interleave(works, repeats):
            taken.setdefault(sample.name, []).append(sample.seconds)
    ms = {name: 1e3 * statistics.median(each) for name, each in taken.items()}
    return table(shape, n_bytes, list(kinds), ms)


def passes(model: GPT) -> dict[int, Work]:
    """By the number of rows: one pass over a cache, which is as it was afterwards."""
    cache = model.new_cache(CONTEXT + max(ROWS))

    def run(n: int, repeat: int) -> None:
        with torch.inference_mode():
            model(torch.zeros(1, n, dtype=torch.long), cache)
        cache.truncate(CONTEXT)

    run(CONTEXT, 0)
    return {n: partial(run, n) for n in ROWS}


def transformers_passes(config: GPTConfig) -> dict[str, dict[int, Work]]:
    """The same passes by transformers; none if it is not installed."""
    try:
        from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel, logging
    except ImportError:
        return {}
    logging.set_verbosity_error()
    warnings.simplefilter("ignore", FutureWarning)  # another name for the cache
    names = "n_layer", "n_head", "n_embd", "vocab_size", "n_positions"
    shape: Any = {name: getattr(config, name) for name in names}
    model = GPT2LMHeadModel(GPT2Config(**shape)).eval()
    cache = DynamicCache()

    @torch.inference_mode()
    def feed(n: int) -> None:
        ids = torch.zeros(1, n, dtype=torch.long)
        model(ids, past_key_values=cache, use_cache=True)

    def run(n: int, repeat: int) -> None:
        feed(n)
        cache.crop(-n)

    feed(CONTEXT)
    return {"transformers": {n: partial(run, n) for n in ROWS}}


def table(shape: str, n_bytes: int, kinds: list[str], ms: dict[str, float]) -> str:
    """Milliseconds, what that is in steps of the same kind, and the bandwidth."""
    read = ms["read"]
    lines = [
        ", ".join(f"{key} {value}" for key, value in machine().items()),
        f"{shape}: {n_bytes / 1e9:.2f} GB of float32, read in {read:.1f} ms "
        f"({n_bytes / read / 1e6:.1f} GB/s); a cache of {CONTEXT} tokens",
        "",
        f"{'rows':<13}" + "".join(f"{n:>12}{'':7}" for n in ROWS) + "      bandwidth",
    ]
    for kind in kinds:
        step = ms[f"{kind} {ROWS[0]}"]
        each = [ms[f"{kind} {n}"] for n in ROWS]
        cells = "".join(f"{one:9.1f} ms {one / step:5.2f} x" for one in each)
        lines.append(f"{kind:<13}{cells}{read / step:15.0%}")
    return "\n".join(lines)

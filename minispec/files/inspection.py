"""What a checkpoint folder holds, and how fast it could run if memory were all.

Decoding one token reads every weight once and does two operations with each: at batch
size 1 the memory's speed decides, not the arithmetic. So

    time per token  >=  bytes of the weights / bytes per second

which is why verifying K drafted tokens in one pass costs about as much as one token.
Nothing is decoded here: the tensors are mapped, and only their shapes are looked at.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch

from minispec.core.analysis import seconds_per_token
from minispec.files.checkpoint import read_folder, safetensors_format
from minispec.files.checkpoint.config import read_json
from minispec.files.checkpoint.weight_files import weight_paths
from minispec.files.errors import FileError, shown
from minispec.files.head import fingerprint, read_of_head
from minispec.files.pair import SHIPPED, check_vocabulary, load_model
from minispec.files.tokenizer import Tokenizer
from minispec.model.gpt2 import GPTConfig


@dataclass(frozen=True)
class Facts:
    """A checkpoint's shape and sizes; bytes and seconds throughout."""

    folder: Path
    config: GPTConfig
    tokenizer_size: int | None  # None where the folder has none that can be used
    tokenizer_problem: str  # why not
    n_parameters: int  # a tied head counted once
    files: dict[str, int]  # name -> bytes on disk
    stored: dict[str, int]  # type -> bytes of tensors, stored masks among them
    memory_bytes: int  # of the weights, once loaded as `dtype`
    cache_bytes_per_token: int  # keys and values, in `dtype`
    bandwidth: float  # bytes per second
    seconds_per_token: float  # if reading the weights is all


def inspect(
    folder: Path | str, bandwidth: float, dtype: torch.dtype = torch.float32
) -> Facts:
    """The facts of a folder, for weights in memory as `dtype`, read at `bandwidth`.

    Raises CheckpointError for a folder that `checkpoint.load` would reject, and
    ValueError for a bandwidth that is not above 0.
    """
    folder, size = Path(folder), dtype.itemsize
    model, _, tensors = read_folder(folder)
    config, n_parameters = model.config, model.n_parameters
    tokenizer_size, problem = _tokenizer(folder, config)
    once = {(t.data_ptr(), t.numel(), t.dtype): t for t in tensors.values()}
    stored: Counter[str] = Counter()  # tied tensors of a pickle share their bytes
    for tensor in once.values():
        name = str(tensor.dtype).removeprefix("torch.")
        stored[name] += tensor.numel() * tensor.element_size()
    return Facts(
        folder=folder,
        config=config,
        tokenizer_size=tokenizer_size,
        tokenizer_problem=problem,
        n_parameters=n_parameters,
        files={path.name: path.stat().st_size for path in weight_paths(folder)},
        stored=dict(stored),
        memory_bytes=n_parameters * size,
        cache_bytes_per_token=2 * config.n_layer * config.n_embd * size,
        bandwidth=bandwidth,
        seconds_per_token=seconds_per_token(n_parameters, size, bandwidth),
    )


def measure_bandwidth(n_bytes: int = 256_000_000, repeats: int = 5) -> float:
    """Bytes per second at which a matrix is read when it meets one vector.

    That is what decoding does with every weight. The matrix should exceed the
    processor's caches by far; the best of `repeats` counts, since other programs can
    only slow it down.
    """
    width = 1024
    matrix = torch.ones(max(1, n_bytes // (4 * width)), width)
    vector, times = torch.ones(width), []
    for _ in range(repeats + 1):  # the first one warms up
        start = time.perf_counter()
        matrix @ vector
        times.append(time.perf_counter() - start)
    return matrix.numel() * matrix.element_size() / min(times[1:])


def report(facts: Facts) -> str:
    """The facts as lines of text."""
    config = facts.config
    inner = config.n_inner or 4 * config.n_embd
    tied = "tied to the embedding" if config.tie_word_embeddings else "of its own"
    tokenizer = facts.tokenizer_problem or f"{facts.tokenizer_size:,} tokens"
    files = ", ".join(f"{shown(f)} {_bytes(n)}" for f, n in facts.files.items())
    stored = ", ".join(f"{name} {_bytes(n)}" for name, n in facts.stored.items())
    full = facts.cache_bytes_per_token * config.n_positions
    rows = {
        "layers": f"{config.n_layer}",
        "heads": f"{config.n_head} of width {config.n_embd // config.n_head}",
        "widths": f"{config.n_embd:,}, inside the MLP {inner:,}",
        "activation": config.activation_function,
        "vocabulary": f"{config.vocab_size:,} rows",
        "tokenizer": tokenizer,
        "head": tied,
        "context": f"{config.n_positions:,} positions",
        "parameters": f"{facts.n_parameters:,}",
        "files": files,
        "tensors": stored,
        "in memory": _bytes(facts.memory_bytes),
        "cache": f"{facts.cache_bytes_per_token:,} bytes per token, "
        f"{_bytes(full)} for the whole context",
        "time per token": f"{1e3 * facts.seconds_per_token:.3g} ms if memory-bound, "
        f"at {facts.bandwidth / 1e9:.3g} GB/s, measured now (less on a busy machine)",
    }
    return _lines(facts.folder, rows)


def head_report(folder: Path) -> str:
    """What a head is, and for which target, as lines of text.

    Raises CheckpointError for a folder that cannot be read, and where the shipped
    target, with which the head's is compared, is missing.
    """
    stated = read_of_head(read_json, folder / "config.json")
    path = folder / "model.safetensors"
    tensors = read_of_head(safetensors_format.read, path)
    kind, sizes, target = (stated.get(name) for name in ("kind", "sizes", "target"))
    shipped = fingerprint(load_model(SHIPPED / "target")[0])
    is_shipped = isinstance(target, dict) and target.get("fingerprint") == shipped
    rows = {
        "what": f"a head of kind {shown(kind)}, which drafts for one target alone",
        "sizes": _stated(sizes),
        "target": "the shipped one: " * is_shipped + _stated(target),
        "parameters": f"{sum(tensor.numel() for tensor in tensors.values()):,}",
        "files": f"{path.name} {_bytes(path.stat().st_size)}",
    }
    return _lines(folder, rows)


def _stated(facts: object) -> str:
    """What a config.json states under one name: "width 128, n_head 4"."""
    if not isinstance(facts, dict):
        return f"not stated ({shown(facts)})"
    return shown(", ".join(f"{name} {value}" for name, value in facts.items()), 200)


def _lines(folder: Path, rows: dict[str, str]) -> str:
    """The folder, and a line for each fact."""
    lines = (f"  {key:15} {value}" for key, value in rows.items())
    return "\n".join([shown(folder, 200), *lines])


def _tokenizer(folder: Path, config: GPTConfig) -> tuple[int | None, str]:
    """How many tokens the folder's vocabulary has, or why it cannot be used."""
    try:
        tokenizer = Tokenizer.from_folder(folder)
        check_vocabulary(folder, tokenizer, config)
    except FileError as error:
        return None, str(error)
    return tokenizer.vocab_size, ""


def _bytes(n: int) -> str:
    """In the unit that leaves one to three digits before the point."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= size:
            return f"{n / size:,.2f} {unit}"
    return f"{n} bytes"

"""The header of a safetensors file, checked before anything is believed.

A header may be damaged or hostile: every number is compared with the file's own length
before it is used, so nothing larger than the file is ever allocated or read.
"""

from __future__ import annotations

import json
import mmap
from pathlib import Path
from typing import Any

import torch

DTYPES: dict[str, torch.dtype] = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16,
    "BF16": torch.bfloat16, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2, "C64": torch.complex64,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "U8": torch.uint8,
    "BOOL": torch.bool,
}  # fmt: skip
MAX_HEADER = 100_000_000  # bytes; the format's own limit


class CheckpointError(ValueError):
    """A checkpoint is not what it should be; the message says where and what to do."""


Entries = dict[str, dict[str, Any]]  # name -> dtype, shape, data_offsets


def parse_header(mapping: mmap.mmap, path: Path) -> tuple[int, Entries]:
    """Where the data begin, and the checked entry of every tensor."""
    if mapping[:8] == b"version ":  # of a Git LFS pointer
        raise CheckpointError(
            f"{path} is a Git LFS pointer, not the weights; run `git lfs pull`, or "
            "download the file"
        )
    length = int.from_bytes(mapping[:8], "little")
    if length > min(MAX_HEADER, len(mapping) - 8):
        raise CheckpointError(
            f"{path} claims a header of {length} bytes and has {len(mapping) - 8} more "
            "in all: cut short, or no safetensors file; download it again"
        )
    start = 8 + length
    try:
        entries = _parse_json(mapping[8:start])
        metadata = entries.pop("__metadata__", {})
        _need(_is_text_map(metadata), "__metadata__ must map text to text")
        for name, entry in entries.items():
            _check_entry(name, entry)
        _check_layout(entries, len(mapping) - start)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} has a malformed header: {str(error)[:200]}; download it again"
        ) from error
    return start, entries


def _parse_json(text: bytes) -> dict[str, Any]:
    """A JSON object without duplicate keys, by the format's rules."""

    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        _need(len(found) == len(pairs), "a key occurs twice")
        return found

    _need(text[:1] == b"{", "it must begin with {")
    return json.loads(text.decode(), object_pairs_hook=without_duplicates)


def _check_entry(name: str, entry: Any) -> None:
    """An entry has a known type, a shape, and a range of just that many bytes."""
    _need(
        isinstance(entry, dict) and entry.keys() == {"dtype", "shape", "data_offsets"},
        f"{name!r:.80} must have dtype, shape and data_offsets",
    )
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    _need(
        isinstance(dtype, str) and dtype in DTYPES,
        f"{name!r:.80} has type {dtype!r}, not one of {', '.join(DTYPES)}",
    )
    _need(_are_sizes(shape), f"{name!r:.80} has shape {shape!r:.80}")
    _need(
        _are_sizes(offsets) and len(offsets) == 2,
        f"{name!r:.80} has data_offsets {offsets!r:.80}, not [begin, end]",
    )
    room, bound = offsets[1] - offsets[0], DTYPES[dtype].itemsize
    for axis in shape:  # one by one: a product of them all may be astronomic
        bound *= max(axis, 1)
        _need(bound < 2**63, f"{name!r:.80} has shape {shape!r:.80}")
    size = 0 if 0 in shape else bound
    _need(size == room, f"{name!r:.80} takes {size} bytes and is given {room}")


def _check_layout(entries: Entries, n_bytes: int) -> None:
    """The tensors follow each other without hole or overlap and fill the data."""
    end = 0
    for begin, next_end in sorted(entry["data_offsets"] for entry in entries.values()):
        _need(begin == end, f"a tensor begins at byte {begin}, the last ended at {end}")
        end = next_end
    _need(end == n_bytes, f"the tensors take {end} bytes and there are {n_bytes}")


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(v, str) for v in value.values())


def _are_sizes(value: Any) -> bool:
    """Whether this is a list of integers from 0 (JSON's true is none) to 2**63 - 1."""
    return isinstance(value, list) and all(
        type(v) is int and 0 <= v < 2**63 for v in value
    )

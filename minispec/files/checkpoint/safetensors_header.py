"""The header of a safetensors file, checked before anything is believed.

A header may be damaged or hostile: every number is compared with the file's own length
before it is used, so nothing larger than the file is ever allocated or read. The checks
take time in proportion to the header's length.
"""

from __future__ import annotations

import json
import mmap
from pathlib import Path
from typing import Any

import torch

from minispec.files.errors import CheckpointError, shown

DTYPES: dict[str, torch.dtype] = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16,
    "BF16": torch.bfloat16, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2, "C64": torch.complex64,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "U8": torch.uint8,
    "BOOL": torch.bool,
}  # fmt: skip
# Bytes. The format allows ten times as many, which take 16 seconds to check; the header
# of GPT-2 XL has 60,000, and shards of large models have less than a million.
MAX_HEADER = 10_000_000
MAX_AXES = 64  # of one tensor; a limit of ours, numpy's too
FIELDS = {"dtype", "shape", "data_offsets"}

Entries = dict[str, dict[str, Any]]  # name -> dtype, shape, data_offsets


def parse_header(mapping: mmap.mmap, path: Path) -> tuple[int, Entries]:
    """Where the data begin, and the checked entry of every tensor."""
    length = int.from_bytes(mapping[:8], "little")
    if MAX_HEADER < length <= len(mapping) - 8:
        raise CheckpointError(
            f"{path} has a header of {length} bytes, at most {MAX_HEADER} are read; "
            "write the tensors into several files"
        )
    if length > len(mapping) - 8:
        raise CheckpointError(
            f"{path} claims a header of {length} bytes and has {len(mapping) - 8} more "
            "in all: cut short, or not a safetensors file; download it again"
        )
    start = 8 + length
    try:
        entries = _parse_json(mapping[8:start])
        _check_metadata(entries.pop("__metadata__", {}))
        for name, entry in entries.items():
            _check_entry(name, entry)
        _check_layout(entries, len(mapping) - start)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} has a malformed header: {shown(error, 200)}; download it again"
        ) from error
    return start, entries


def _parse_json(text: bytes) -> dict[str, Any]:
    """A JSON object without duplicate keys and with natural numbers alone."""

    def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key occurs twice")
        return found

    def natural(digits: str) -> int:
        if digits.startswith("-") or len(digits) > 19 or int(digits) >= 2**63:
            raise ValueError(f"{shown(digits)} is not a size")
        return int(digits)

    if text[:1] != b"{":
        raise ValueError("it must begin with {")
    return json.loads(
        text.decode(), object_pairs_hook=without_duplicates, parse_int=natural
    )


def _check_metadata(metadata: Any) -> None:
    """Text to text; `encode` raises ValueError for half a character (a surrogate)."""
    if not isinstance(metadata, dict):
        raise ValueError("__metadata__ must map text to text")
    for key, value in metadata.items():
        if not isinstance(value, str):
            raise ValueError("__metadata__ must map text to text")
        (key + value).encode()


def _check_entry(name: str, entry: Any) -> None:
    """An entry has a known type, a shape, and a range of just that many bytes."""
    name.encode()
    if not isinstance(entry, dict) or entry.keys() != FIELDS:
        raise ValueError(f"{shown(name)} must have dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(
            f"{shown(name)} has type {shown(dtype)}, not one of {', '.join(DTYPES)}"
        )
    if not _are_sizes(shape) or len(shape) > MAX_AXES:
        raise ValueError(f"{shown(name)} has shape {shown(shape)}")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise ValueError(
            f"{shown(name)} has data_offsets {shown(offsets)}, not [begin, end]"
        )
    room, bound = offsets[1] - offsets[0], DTYPES[dtype].itemsize
    for axis in shape:  # one by one: a product of them all may be astronomic
        bound *= max(axis, 1)
        if bound >= 2**63:
            raise ValueError(f"{shown(name)} has shape {shown(shape)}")
    size = 0 if 0 in shape else bound
    if size != room:
        raise ValueError(f"{shown(name)} takes {size} bytes and is given {room}")


def _check_layout(entries: Entries, n_bytes: int) -> None:
    """The tensors follow each other without hole or overlap and fill the data."""
    end = 0
    for begin, next_end in sorted(entry["data_offsets"] for entry in entries.values()):
        if begin != end:
            raise ValueError(f"a tensor begins at {begin}, the last one ended at {end}")
        end = next_end
    if end != n_bytes:
        raise ValueError(f"the tensors take {end} bytes and there are {n_bytes}")


def _are_sizes(value: Any) -> bool:
    """Whether this is a list of whole numbers (JSON's true is none)."""
    return isinstance(value, list) and all(type(v) is int for v in value)

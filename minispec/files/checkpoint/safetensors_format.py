"""The safetensors format: named arrays in one file, read through a memory map.

    8 bytes   N, the header's length, little-endian
    N bytes   {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
              in UTF-8, perhaps "__metadata__": {"key": "text"}, perhaps spaces after it
    the rest  the arrays, row by row; offsets count from the end of the header

The arrays must lie end to end from the first byte of the data to the last, each as long
as its shape says (`safetensors_header.py`). A mapped file must not become shorter
while it is in use: replace it, as `write` does.

The format's home, with its rules: https://github.com/huggingface/safetensors. Left out:
types that torch has no name for, and reading parts of a tensor.
"""

from __future__ import annotations

import json
import mmap
import weakref
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minispec.files.checkpoint.recognition import SAFETENSORS, check_kind
from minispec.files.checkpoint.safetensors_header import DTYPES, parse_header
from minispec.files.errors import CheckpointError
from minispec.files.whole import replacing

NAMES = {dtype: name for name, dtype in DTYPES.items()}
ALIGNMENT = 64  # bytes: the arrays that `write` lays down begin on a cache line


def read(path: Path | str) -> dict[str, Tensor]:
    """The tensors of a file, by name.

    They are views of a private memory map: nothing is copied, pages are read when they
    are first used, and writing into a tensor never changes the file. Only a tensor that
    lies at an odd address (older writers did that) is read into memory of its own.
    Raises CheckpointError for anything but a well-formed file.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"{path} is not a file; give the path of a .safetensors")
    check_kind(path, SAFETENSORS)
    with path.open("rb") as file:
        mapping = _map(file, path)
        start, entries = parse_header(mapping, path)
        return {
            name: _tensor(mapping, file, start, entry)
            for name, entry in entries.items()
        }


def write(tensors: Mapping[str, Tensor], path: Path | str) -> None:
    """Store tensors under their names, widest types first, so that all lie aligned.

    A file that is already there is replaced, and models that have it mapped keep it.
    """
    order = sorted(tensors, key=lambda name: -tensors[name].element_size())
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}  # asked for by readers
    end = 0
    for name in order:
        tensor = tensors[name]
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    with replacing(path) as part, part.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            flat = tensors[name].detach().cpu().contiguous().reshape(-1)
            file.write(flat.view(torch.uint8).numpy().data)


def _map(file: BufferedReader, path: Path) -> mmap.mmap:
    """The whole file as memory; writing there stays with this process."""
    size = file.seek(0, 2)
    if size < 8:
        raise CheckpointError(
            f"{path} has {size} bytes, a safetensors file at least 8; download it again"
        )
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def _tensor(
    mapping: mmap.mmap, file: BufferedReader, start: int, entry: dict[str, Any]
) -> Tensor:
    """One tensor of a checked entry."""
    dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
    begin, end = (start + offset for offset in entry["data_offsets"])
    if begin == end:
        return torch.empty(shape, dtype=dtype)
    if begin % dtype.itemsize:  # kernels may rely on whole addresses
        own = _room(end - begin, file.name)
        file.seek(begin)
        if file.readinto(own.numpy().data) != end - begin:
            raise CheckpointError(f"{file.name} became shorter while it was read")
        return own.view(dtype).view(shape)
    flat = np.frombuffer(mapping, np.uint8, end - begin, begin)
    weakref.finalize(flat, _give_back, mapping, begin, end).atexit = False
    return torch.from_numpy(flat).view(dtype).view(shape)


def _give_back(mapping: mmap.mmap, begin: int, end: int) -> None:
    """Drop the pages of a tensor that is gone, while others still use the map."""
    first, last = -(-begin // mmap.PAGESIZE), end // mmap.PAGESIZE  # whole pages
    if first < last and hasattr(mmap, "MADV_DONTNEED"):
        size = (last - first) * mmap.PAGESIZE
        mapping.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, size)


def _room(n_bytes: int, name: str) -> Tensor:
    """Memory, without values; a sparse file may claim more than there is."""
    try:
        return torch.empty(n_bytes, dtype=torch.uint8)
    except RuntimeError as error:
        raise CheckpointError(
            f"{name}: a tensor at an odd address needs {n_bytes:,} bytes of memory, "
            "more than there are; write the file anew, or take a smaller model"
        ) from error

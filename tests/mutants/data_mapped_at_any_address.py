"""Tensors are views of the map wherever they lie, also at odd addresses.

gpt2's own file has its data at an odd byte; kernels may rely on whole addresses. Made
by whoever tests with files of their own, which are aligned (inference).
"""

import mmap
from io import BufferedReader
from typing import Any

import torch
from torch import Tensor

from minispec.checkpoint.safetensors_header import DTYPES

REPLACES = "checkpoint/safetensors_format.py:_tensor"
CAUGHT_BY = ["test_safetensors_format.py"]


def _tensor(
    mapping: mmap.mmap, file: BufferedReader, start: int, entry: dict[str, Any]
) -> Tensor:
    dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
    begin, end = (start + offset for offset in entry["data_offsets"])
    if begin == end:
        return torch.empty(shape, dtype=dtype)
    count = (end - begin) // dtype.itemsize
    return torch.frombuffer(mapping, dtype=dtype, count=count, offset=begin).view(shape)

"""BF16 is read as float16: the same two bytes, other numbers.

Made by whoever reads through numpy, which has no bfloat16 (inference).
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
    half = {"BF16": torch.float16}
    dtype = half.get(entry["dtype"], DTYPES[entry["dtype"]])
    begin, end = (start + offset for offset in entry["data_offsets"])
    own = torch.tensor(list(mapping[begin:end]), dtype=torch.uint8)
    return own.view(dtype).view(entry["shape"])

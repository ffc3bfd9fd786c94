"""Tensors are written in the order given, so wide ones may lie at odd addresses.

Made by whoever writes the format from its description, which does not ask for more
(inference).
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minispec.checkpoint.safetensors_format import ALIGNMENT, NAMES

REPLACES = "checkpoint/safetensors_format.py:write"
CAUGHT_BY = ["test_safetensors_format.py"]


def write(tensors: Mapping[str, Tensor], path: Path | str) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in tensors.items():
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        raw = flat.view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    part = Path(f"{path}.{os.getpid()}.part")
    part.write_bytes(len(text).to_bytes(8, "little") + text + data)
    os.replace(part, path)

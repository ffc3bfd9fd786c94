"""What a file is by its first bytes, where its name says something else.

A failed download is often a web page or a Git LFS pointer under the name of the
weights, and weights get renamed: naming what is there helps more than "malformed".
"""

from __future__ import annotations

import re
from pathlib import Path

from minispec.files.errors import CheckpointError, regular

SAFETENSORS, TORCH = "a safetensors file", "a file of torch.save"
KINDS = {  # what it is: its first bytes, and what to do
    SAFETENSORS: (rb".{8}\{", "rename it model.safetensors"),
    TORCH: (rb"PK\x03\x04|\x80[\x02-\x05]", "rename it pytorch_model.bin"),
    "a Git LFS pointer": (
        rb"version https://git-lfs",
        "run `git lfs pull`, or download the file itself",
    ),
    "a web page": (
        rb"\s*<(!doctype|html|\?xml)",
        "download the file itself: its address has /resolve/ in it, not /blob/",
    ),
    "a GGUF file": (rb"GGUF", "take a safetensors file of the model"),
    "an HDF5 file": (rb"\x89HDF", "take a safetensors file of the model"),
}


def check_kind(path: Path, wanted: str) -> None:
    """Raise CheckpointError where the file is plainly something else than `wanted`."""
    with regular(path).open("rb") as file:
        head = file.read(100)
    for kind in (wanted, *KINDS):
        pattern, advice = KINDS[kind]
        if re.match(pattern, head, re.DOTALL | re.IGNORECASE):
            if kind != wanted:
                raise CheckpointError(f"{path} is {kind}, not {wanted}; {advice}")
            return

"""A tensor's bytes are not compared with its shape.

ml-explore/mlx, issue 3363: read far beyond the data.
"""

from typing import Any

from minispec.checkpoint.safetensors_header import DTYPES, _need

REPLACES = "checkpoint/safetensors_header.py:_check_entry"
CAUGHT_BY = ["test_safetensors_format.py"]


def _check_entry(name: str, entry: Any) -> None:
    expected = {"dtype", "shape", "data_offsets"}
    _need(isinstance(entry, dict) and entry.keys() == expected, f"{name} lacks fields")
    _need(entry["dtype"] in DTYPES, f"{name} has type {entry['dtype']}")
    begin, end = entry["data_offsets"]
    _need(0 <= begin <= end, f"{name} goes backwards")

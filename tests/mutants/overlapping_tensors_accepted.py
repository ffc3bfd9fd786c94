"""Tensors may share bytes: only that none lies beyond the data is checked.

ohdearquant/lattice, issue 752; antirez/h3.c, pull request 48.
"""

from minispec.checkpoint.safetensors_header import Entries, _need

REPLACES = "checkpoint/safetensors_header.py:_check_layout"
CAUGHT_BY = ["test_safetensors_format.py"]


def _check_layout(entries: Entries, n_bytes: int) -> None:
    for entry in entries.values():
        _, end = entry["data_offsets"]
        _need(end <= n_bytes, f"a tensor ends at byte {end} of {n_bytes}")

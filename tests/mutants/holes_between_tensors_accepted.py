"""Bytes that belong to no tensor are accepted: a file may carry something else.

antirez/h3.c, pull request 48.
"""

from minispec.checkpoint.safetensors_header import Entries, _need

REPLACES = "checkpoint/safetensors_header.py:_check_layout"
CAUGHT_BY = ["test_safetensors_format.py"]


def _check_layout(entries: Entries, n_bytes: int) -> None:
    end = 0
    for begin, next_end in sorted(entry["data_offsets"] for entry in entries.values()):
        _need(begin >= end, f"a tensor begins at byte {begin}, within the last")
        end = next_end
    _need(end <= n_bytes, f"the tensors take {end} bytes and there are {n_bytes}")

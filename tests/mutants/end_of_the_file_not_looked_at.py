"""The tensors follow each other, but nobody asks whether the file is that long.

ml-explore/mlx, issue 3409.
"""

from minispec.checkpoint.safetensors_header import Entries, _need

REPLACES = "checkpoint/safetensors_header.py:_check_layout"
CAUGHT_BY = ["test_safetensors_format.py"]


def _check_layout(entries: Entries, n_bytes: int) -> None:
    end = 0
    for begin, next_end in sorted(entry["data_offsets"] for entry in entries.values()):
        _need(begin == end, f"a tensor begins at byte {begin}, the last ended at {end}")
        end = next_end

"""A list of the same tensor L times stands for the L layers.

Made by whoever multiplies a list in Python.
"""

import torch

REPLACES = "kv_cache.py:KVCache.__init__"
CAUGHT_BY = ["test_kv_cache.py"]


class KVCache:
    def __init__(
        self,
        n_layer: int,
        n_head: int,
        head_width: int,
        capacity: int,
        batch: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1 position, got {capacity}")
        shape = (batch, n_head, capacity, head_width)
        self.keys = [torch.zeros(shape, dtype=dtype, device=device)] * n_layer
        self.values = [torch.zeros(shape, dtype=dtype, device=device)] * n_layer
        self.capacity = capacity
        self.length = 0

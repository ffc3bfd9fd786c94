"""Every step copies the whole past into a new tensor.

Made by whoever writes a first cache: the rows are right, but each token costs as much
as the text is long, and no limit of memory holds.
"""

import torch
from torch import Tensor

REPLACES = "kv_cache.py:KVCache.append"
CAUGHT_BY = ["test_kv_cache.py"]


class KVCache:
    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        for rows, new in ((self.keys, key), (self.values, value)):
            rows[layer] = torch.cat([rows[layer][:, :, : self.length], new], dim=2)
        return self.keys[layer], self.values[layer]

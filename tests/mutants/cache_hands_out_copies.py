"""Attention gets copies of the rows.

Made by whoever fears that somebody might write to them: every token then copies the
whole past, in every layer.
"""

from torch import Tensor

REPLACES = "kv_cache.py:KVCache.append"
CAUGHT_BY = ["test_kv_cache.py"]


class KVCache:
    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        end = self.length + key.shape[2]
        if end > self.capacity:
            raise ValueError(
                f"the cache holds {self.capacity} positions and {end} are needed"
            )
        keys, values = self.keys[layer], self.values[layer]
        keys[:, :, self.length : end] = key
        values[:, :, self.length : end] = value
        return keys[:, :, :end].clone(), values[:, :, :end].clone()

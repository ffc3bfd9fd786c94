"""What does not fit the cache is dropped without a word.

Made by whoever slices: a slice beyond the end is shorter, and no error.
"""

from torch import Tensor

REPLACES = "kv_cache.py:KVCache.append"
CAUGHT_BY = ["test_kv_cache.py"]


class KVCache:
    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        end = min(self.length + key.shape[2], self.capacity)
        keys, values = self.keys[layer], self.values[layer]
        keys[:, :, self.length : end] = key[:, :, : end - self.length]
        values[:, :, self.length : end] = value[:, :, : end - self.length]
        return keys[:, :, :end], values[:, :, :end]

"""The memory of a token is that of its keys alone.

Made by whoever multiplies layers, heads and width and forgets that there are two.
"""

REPLACES = "kv_cache.py:KVCache.bytes_per_token"
CAUGHT_BY = ["test_kv_cache.py"]


class KVCache:
    @property
    def bytes_per_token(self) -> int:
        row = self.keys[0][0, :, 0]
        return len(self.keys) * row.numel() * row.element_size()

"""Truncating does nothing, and nobody is told.

Made by whoever gives every kind of cache the same method: it was a no-op for caches
that cannot be trimmed (ml-explore/mlx-lm, pull request 1109).
"""

REPLACES = "kv_cache.py:KVCache.truncate"
CAUGHT_BY = ["test_kv_cache.py"]


class KVCache:
    def truncate(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise ValueError(
                f"cannot truncate to {length}: the cache holds {self.length} positions"
            )

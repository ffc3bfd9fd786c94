"""Truncating to a length beyond the end counts slots that hold nothing.

Made by whoever sets the length and asks no questions: stale rows then pass for the
past.
"""

REPLACES = "kv_cache.py:KVCache.truncate"
CAUGHT_BY = ["test_kv_cache.py"]


class KVCache:
    def truncate(self, length: int) -> None:
        if not 0 <= length <= self.capacity:
            raise ValueError(
                f"cannot truncate to {length}: the cache holds {self.length} positions"
            )
        self.length = length

"""What is kept is the end of the cache, not its beginning.

Made by whoever trims a cache as a sliding window does.
"""

from minispec.kv_cache import KVCache

REPLACES = "rollback.py:rollback"
CAUGHT_BY = ["test_rollback.py"]


def rollback(cache: KVCache, length: int) -> None:
    dropped = cache.length - length
    if dropped > 0:
        for rows in [*cache.keys, *cache.values]:
            rows[:, :, :length] = rows[:, :, dropped : cache.length].clone()
        cache.truncate(length)

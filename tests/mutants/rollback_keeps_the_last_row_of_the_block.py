"""The length is right; the last row kept is the one that was written last.

Made by whoever moves rows together on rollback, as a batch with rows of different
lengths needs: a refused token stands where the accepted one belongs.
"""

from minispec.kv_cache import KVCache

REPLACES = "rollback.py:rollback"
CAUGHT_BY = ["test_rollback.py"]


def rollback(cache: KVCache, length: int) -> None:
    if cache.length > length:
        for rows in [*cache.keys, *cache.values]:
            rows[:, :, length - 1] = rows[:, :, cache.length - 1]
        cache.truncate(length)

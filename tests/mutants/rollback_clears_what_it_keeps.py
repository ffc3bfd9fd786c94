"""The rows that stay are set to zero.

Made by whoever resets the cache and forgets to restore the part that was accepted
(paiml/aprender, pull request 2014).
"""

from minispec.kv_cache import KVCache

REPLACES = "rollback.py:rollback"
CAUGHT_BY = ["test_rollback.py"]


def rollback(cache: KVCache, length: int) -> None:
    if cache.length > length:
        for rows in [*cache.keys, *cache.values]:
            rows.zero_()
        cache.truncate(length)

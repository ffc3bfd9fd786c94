"""One committed token too many is forgotten.

Made by whoever takes a length for the last index; the token is fed again and only time
is lost, unless the caller counts on what it asked for.
"""

from minispec.kv_cache import KVCache

REPLACES = "rollback.py:rollback"
CAUGHT_BY = ["test_rollback.py"]


def rollback(cache: KVCache, length: int) -> None:
    if cache.length >= length:
        cache.truncate(max(length - 1, 0))

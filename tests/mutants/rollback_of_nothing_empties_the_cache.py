"""Rolling back by nothing forgets everything, since [:-0] is empty.

Made by whoever cuts from the end with a count that may be 0 (romsto/Speculative-
Decoding, its source).
"""

from minispec.kv_cache import KVCache

REPLACES = "rollback.py:rollback"
CAUGHT_BY = ["test_rollback.py"]


def rollback(cache: KVCache, length: int) -> None:
    dropped = max(cache.length - length, 0)
    kept = range(cache.length)[:-dropped]
    cache.truncate(len(kept))

"""A block of several tokens moves the length by one.

Made by whoever decodes token by token: the position was advanced by 1 and not by
accepted + 1 (huggingface/transformers, issues 30042 and 30413, pull request 30068).
"""

REPLACES = "kv_cache.py:KVCache.advance"
CAUGHT_BY = ["test_kv_cache.py"]


class KVCache:
    def advance(self, n_new: int) -> None:
        self.length += 1

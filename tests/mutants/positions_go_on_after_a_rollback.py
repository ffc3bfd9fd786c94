"""Positions count the tokens that were ever fed, not those that the cache holds.

Made by whoever keeps a counter beside the cache; after a rollback the two differ
(positions advanced by 1 and not by accepted + 1: huggingface/transformers, issues 30042
and 30413).
"""

from torch import Tensor

from minispec.attention import causal_mask
from minispec.kv_cache import KVCache

REPLACES = "gpt2.py:GPT.trunk"
CAUGHT_BY = ["test_rollback.py", "test_kv_cache.py"]


class GPT:
    def trunk(self, ids: Tensor, cache: KVCache | None = None) -> Tensor:
        T, S = ids.shape[1], 0 if cache is None else cache.length
        if S + T > self.config.n_positions:
            raise ValueError(
                f"{S + T} tokens do not fit the context of {self.config.n_positions} "
                "positions: shorten the prompt or ask for fewer tokens"
            )
        fed = 0 if cache is None else vars(cache).setdefault("_fed", 0)
        fed = min(fed, self.config.n_positions - T)
        x = self.wte(ids) + self.wpe.weight[fed : fed + T]
        mask = causal_mask(T, S + T, x)
        for block in self.h:
            x = block(x, cache, mask)
        if cache is not None:
            cache.advance(T)
            vars(cache)["_fed"] = fed + T
        return self.ln_f(x)

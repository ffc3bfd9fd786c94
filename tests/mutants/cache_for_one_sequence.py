"""A cache is made for one sequence, whatever batch is asked for.

Made by whoever decodes one text at a time (inference).
"""

from torch import nn

from minispec.kv_cache import KVCache

REPLACES = "gpt2.py:GPT.new_cache"
CAUGHT_BY = ["test_gpt2.py"]


class GPT(nn.Module):
    def new_cache(self, capacity: int | None = None, batch: int = 1) -> KVCache:
        config, weight = self.config, self.wte.weight
        return KVCache(
            config.n_layer,
            config.n_head,
            config.n_embd // config.n_head,
            config.n_positions if capacity is None else capacity,
            1,
            weight.dtype,
            weight.device,
        )

"""New tokens get positions 0, 1, ... although the cache holds earlier ones.

Wrong position ids are the most reported fault of caches: facebookresearch/LayerSkip,
pull request 28; huggingface/transformers, pull requests 30068 and 46936.
"""

from torch import Tensor, nn

from minispec.attention import causal_mask
from minispec.kv_cache import KVCache

REPLACES = "gpt2.py:GPT.trunk"
CAUGHT_BY = ["test_gpt2.py"]


class GPT(nn.Module):
    def trunk(self, ids: Tensor, cache: KVCache | None = None) -> Tensor:
        T, S = ids.shape[1], 0 if cache is None else cache.length
        if S + T > self.config.n_positions:
            raise ValueError(
                f"{S + T} tokens do not fit the context of {self.config.n_positions} "
                "positions: shorten the prompt or ask for fewer tokens"
            )
        x = self.wte(ids) + self.wpe.weight[:T]
        mask = causal_mask(T, S + T, x)
        for block in self.h:
            x = block(x, cache, mask)
        if cache is not None:
            cache.advance(T)
        return self.ln_f(x)

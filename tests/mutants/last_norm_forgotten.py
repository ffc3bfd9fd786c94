"""The hidden states reach the head without `ln_f`.

Made by whoever reads the hidden states of the last block as the model's output, as
drafters on hidden states do (inference).
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
        x = self.wte(ids) + self.wpe.weight[S : S + T]
        mask = causal_mask(T, S + T, x)
        for block in self.h:
            x = block(x, cache, mask)
        if cache is not None:
            cache.advance(T)
        return x

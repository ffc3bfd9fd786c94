"""c_attn's columns are read as [q k v] of head 0, [q k v] of head 1, ...

GPT-NeoX and BLOOM store them so; GPT-2 stores all queries, all keys, all values. Made
by whoever carries that layout over (inference).
"""

from torch import Tensor, nn

from minispec.kv_cache import KVCache

REPLACES = "gpt2.py:Attention.forward"
CAUGHT_BY = ["test_gpt2.py"]


class Attention(nn.Module):
    def forward(self, x: Tensor, cache: KVCache | None, mask: Tensor | None) -> Tensor:
        B, T, E = x.shape
        heads = self.c_attn(x).view(B, T, self.n_head, 3, -1)
        query, key, value = heads.permute(3, 0, 2, 1, 4)
        if cache is not None:
            key, value = cache.append(self.layer, key, value)
        mixed = self.attend(query, key, value, mask, self.scale)
        return self.c_proj(mixed.transpose(1, 2).reshape(B, T, E))

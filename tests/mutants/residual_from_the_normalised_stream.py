"""Each sublayer adds to the normalised stream instead of to the stream itself.

Made by whoever knows the order of GPT-1 and BERT, where the norm comes last
(inference).
"""

from torch import Tensor, nn

from minispec.kv_cache import KVCache

REPLACES = "gpt2.py:Block.forward"
CAUGHT_BY = ["test_gpt2.py"]


class Block(nn.Module):
    def forward(self, x: Tensor, cache: KVCache | None, mask: Tensor | None) -> Tensor:
        x = self.ln_1(x)
        x = x + self.attn(x, cache, mask)
        x = self.ln_2(x)
        return x + self.mlp(x)

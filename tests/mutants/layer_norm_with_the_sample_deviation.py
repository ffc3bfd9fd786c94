"""LayerNorm divides by torch's `std`: n - 1 under the root, and eps outside it.

The Annotated Transformer writes it so; GPT-2 was trained with the biased variance.
"""

from torch import Tensor, nn

REPLACES = "layers.py:LayerNorm.forward"
CAUGHT_BY = ["test_gpt2.py"]


class LayerNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.weight * (x - mean) / (std + self.eps) + self.bias

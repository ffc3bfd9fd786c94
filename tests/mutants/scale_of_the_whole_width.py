"""Scores are divided by sqrt(E), the model's width, instead of sqrt(D), a head's.

Made by whoever moves from one head to several and leaves the scale (inference).
"""

from torch import nn

from minispec.attention import AttentionForm
from minispec.gpt2 import GPTConfig
from minispec.layers import Conv1D

REPLACES = "gpt2.py:Attention.__init__"
CAUGHT_BY = ["test_gpt2.py"]


class Attention(nn.Module):
    def __init__(self, config: GPTConfig, layer: int, attend: AttentionForm) -> None:
        nn.Module.__init__(self)
        self.c_attn = Conv1D(config.n_embd, 3 * config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)
        self.layer, self.n_head, self.attend = layer, config.n_head, attend
        self.scale = config.n_embd**-0.5
        if config.scale_attn_by_inverse_layer_idx:
            self.scale /= layer + 1

"""`scale_attn_by_inverse_layer_idx` is read and changes nothing.

huggingface/transformers ignored it before pull request 13573, and so did mlc-ai/mlc-llm
before pull request 1389.
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
        self.scale = (config.n_embd // config.n_head) ** -0.5

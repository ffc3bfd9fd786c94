"""The MLP is 4 E wide whatever `n_inner` says.

keras-team/keras-hub (pull request 1704) had another wrong width; the rule is
`n_inner or 4 * n_embd`.
"""

from torch import nn

from minispec.gpt2 import ACTIVATIONS, GPTConfig
from minispec.layers import Conv1D

REPLACES = "gpt2.py:MLP.__init__"
CAUGHT_BY = ["test_gpt2.py::test_keys_and_shapes_are_gpt2s_and_nothing_else"]


class MLP(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        nn.Module.__init__(self)
        self.c_fc = Conv1D(config.n_embd, 4 * config.n_embd)
        self.c_proj = Conv1D(4 * config.n_embd, config.n_embd)
        self.activation = ACTIVATIONS[config.activation_function]

"""Every matrix starts with the same deviation: c_proj is not divided by sqrt(2 L).

Made by whoever reads "normal with 0.02" in the paper and stops there (inference).
"""

import torch
from torch import nn

from minispec.gpt2 import GPT as Model

REPLACES = "gpt2.py:GPT.initialize"
CAUGHT_BY = ["test_gpt2.py::test_initialize_is_gpt2s_own"]


class GPT(nn.Module):
    @torch.no_grad()
    def initialize(self, generator: torch.Generator, std: float = 0.02) -> Model:
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif ".ln_" in name or name.startswith("ln_f"):
                parameter.fill_(1.0)
            else:
                parameter.normal_(0.0, std, generator=generator)
        return self

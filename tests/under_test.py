"""Models as the implementation under test would run them."""

from __future__ import annotations

from typing import Any

import torch

from minispec.gpt2 import GPT


@torch.no_grad()
def under_test(impl: Any, model: GPT) -> Any:
    """The same weights in `impl`'s GPT, over its cache and its open attention."""
    again = impl.gpt2.GPT(model.config, impl.attention.open_attention)
    again = again.to(model.wte.weight.dtype)
    again.load_state_dict(model.state_dict())
    return again.eval().requires_grad_(False)

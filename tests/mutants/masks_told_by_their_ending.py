"""Stored masks are dropped by `endswith("attn.bias")`, and with them `c_attn.bias`.

Made by whoever forgets the dot: nanoGPT tests for ".attn.bias".
"""

from collections.abc import Mapping

from torch import Tensor

from minispec.checkpoint.key_names import canonical_name

REPLACES = "checkpoint/key_names.py:canonical_names"
CAUGHT_BY = ["test_checkpoint.py"]


def canonical_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found = {canonical_name(key): tensor for key, tensor in tensors.items()}
    masks = ("attn.bias", "attn.masked_bias")
    return {name: t for name, t in found.items() if not name.endswith(masks)}

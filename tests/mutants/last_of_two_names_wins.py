"""Two keys that mean the same weight: the one that comes last is taken.

Made by whoever renames keys in a comprehension (inference).
"""

from collections.abc import Mapping

from torch import Tensor

from minispec.checkpoint.key_names import MASK, canonical_name

REPLACES = "checkpoint/key_names.py:canonical_names"
CAUGHT_BY = ["test_checkpoint.py"]


def canonical_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found = {canonical_name(key): tensor for key, tensor in tensors.items()}
    return {name: t for name, t in found.items() if not MASK.fullmatch(name)}

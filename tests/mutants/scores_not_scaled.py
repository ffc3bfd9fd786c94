"""The scores are not divided by sqrt(D).

Made by whoever writes softmax(q @ k.T) @ v from memory (inference).
"""

from torch import Tensor

REPLACES = "attention.py:open_attention"
CAUGHT_BY = ["test_gpt2.py"]


def open_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:
    scores = query @ key.transpose(-2, -1)
    if mask is not None:
        scores = scores + mask
    return scores.softmax(dim=-1) @ value

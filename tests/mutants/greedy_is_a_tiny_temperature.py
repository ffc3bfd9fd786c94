"""Temperature 0 is a very small temperature: equal logits share the mass.

Made by whoever clamps the temperature to avoid a division by zero; a draft and a target
that break ties by chance no longer agree with a plain argmax.
"""

from torch import Tensor

REPLACES = "sampling.py:one_hot"
CAUGHT_BY = ["test_sampling.py"]


def one_hot(scores: Tensor) -> Tensor:
    highest = scores.amax(dim=-1, keepdim=True)
    return ((scores - highest) / 1e-6).softmax(dim=-1)

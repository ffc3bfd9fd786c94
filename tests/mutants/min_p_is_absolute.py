"""Min-p is compared with the probabilities, not with a share of the highest.

Made by whoever takes the name for the definition.
"""

from torch import Tensor

REPLACES = "sampling.py:keep_min_p"
CAUGHT_BY = ["test_sampling.py"]


def keep_min_p(probs: Tensor, fraction: float) -> Tensor:
    threshold = probs.amax(-1, keepdim=True).clamp(max=fraction)  # one at least stays
    return probs.where(probs >= threshold, 0.0)

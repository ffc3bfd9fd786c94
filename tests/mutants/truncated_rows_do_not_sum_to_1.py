"""What truncation takes away is not given to the tokens that stay.

Made by whoever draws with a kernel that normalises by itself: the rejection sampler
compares rows and needs probabilities.
"""

from torch import Tensor

REPLACES = "sampling.py:normalize"
CAUGHT_BY = ["test_sampling.py"]


def normalize(probs: Tensor) -> Tensor:
    return probs

"""The residual is the softmax of the clamped difference.

Made by whoever turns all scores into probabilities by softmax
(huggingface/transformers, pull request 28508).
"""

from torch import Tensor

REPLACES = "rejection.py:residual"
CAUGHT_BY = ["test_rejection.py"]


def residual(target_row: Tensor, draft_row: Tensor) -> Tensor:
    return (target_row - draft_row).clamp(min=0).softmax(-1)

"""A token to which the draft gave no probability has an infinite ratio.

Made by whoever lets the division answer: a draft that declares another row than it drew
from (huggingface/transformers, issue 47932) is then never noticed.
"""

from torch import Tensor

REPLACES = "rejection.py:acceptance_ratios"
CAUGHT_BY = ["test_rejection.py"]


def acceptance_ratios(
    tokens: Tensor, draft_probs: Tensor, target_probs: Tensor
) -> Tensor:
    column = tokens[:, None]
    drafted = draft_probs.gather(1, column)[:, 0]
    return target_probs[:-1].gather(1, column)[:, 0] / drafted

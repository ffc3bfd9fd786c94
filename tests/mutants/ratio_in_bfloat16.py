"""The ratios are rounded to bfloat16.

Made by whoever judges in the model's type; the source of gpt-fast draws its uniforms in
it, and in bfloat16 0.999 is 1.
"""

from torch import Tensor

REPLACES = "rejection.py:acceptance_ratios"
CAUGHT_BY = ["test_rejection.py"]


def acceptance_ratios(
    tokens: Tensor, draft_probs: Tensor, target_probs: Tensor
) -> Tensor:
    column = tokens[:, None]
    drafted = draft_probs.gather(1, column)[:, 0]
    if (drafted <= 0).any():
        raise ValueError("a drafted token has draft probability 0")
    ratios = target_probs[:-1].gather(1, column)[:, 0] / drafted
    return ratios.bfloat16().to(ratios.dtype)

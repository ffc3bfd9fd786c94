"""After a refusal the token is drawn from the target's own row.

Made by whoever reasons that the target is always right: what was accepted is then
counted twice.
"""

from torch import Tensor

REPLACES = "rejection.py:residual"
CAUGHT_BY = ["test_rejection.py"]


def residual(target_row: Tensor, draft_row: Tensor) -> Tensor:
    return target_row

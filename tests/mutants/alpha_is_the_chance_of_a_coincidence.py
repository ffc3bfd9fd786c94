"""Alpha is taken for sum(target * draft), the chance that two draws coincide.

That is the rate of samplers that compare two draws, or treat a drawn token as certain
(vllm-project/vllm, issue 40149); rejection sampling keeps sum(min(target, draft)).
"""

from torch import Tensor

REPLACES = "analysis.py:overlap"
CAUGHT_BY = ["test_analysis.py"]


def overlap(target_row: Tensor, draft_row: Tensor) -> Tensor:
    return (target_row * draft_row).sum(dim=-1)

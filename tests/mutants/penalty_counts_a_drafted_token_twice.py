"""A drafted token that stood in the prefix already is penalised a second time.

Made by whoever brings the penalty up to date row by row instead of computing it anew:
the reviewers of vllm-project/vllm, pull request 33251, found the last token counted
twice from row 1 on.
"""

from torch import Tensor

REPLACES = "sampling.py:penalize_repeats"
CAUGHT_BY = ["test_sampling.py"]


def penalize_repeats(scores: Tensor, history: Tensor, penalty: float) -> Tensor:
    R = len(scores)
    n = len(history) - (R - 1)
    penalized = scores.clone()
    for i in range(R):
        for seen in (history[:n].unique(), history[n : n + i].unique()):
            old = penalized[i, seen]
            penalized[i, seen] = (old / penalty).where(old > 0, old * penalty)
    return penalized

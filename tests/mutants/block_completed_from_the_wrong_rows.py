"""What a round does not commit is drawn from the rows behind its accepted drafts.

The extra token is forgotten in the count: off by one row. Made by whoever thinks of
n_accepted as the tokens of a round (inference; openvinotoolkit/openvino.genai, issue
4190, is a count of this kind).
"""

import torch
from torch import Tensor

from minispec.exactness import Law, output_law
from minispec.exactness.rejection import RejectionSampler
from minispec.randomness import Randomness

REPLACES = "exactness/rejection.py:law_of_rejection"
CAUGHT_BY = ["test_exactness_kit.py"]


def law_of_rejection(
    sampler: RejectionSampler,
    target_rows: Tensor,
    draft_rows: Tensor,
    drawn_from: Tensor | None = None,
    max_branches: int = 100_000,
) -> Law:
    source = draft_rows if drawn_from is None else drawn_from

    def run(randomness: Randomness) -> list[int]:
        drafted = [randomness.sample(row) for row in source]
        tokens = torch.tensor(drafted, dtype=torch.long)
        judged = sampler(tokens, draft_rows, target_rows, randomness)
        committed = [*drafted[: judged.n_accepted], int(judged.next_token)]
        rest = target_rows[judged.n_accepted : -1]
        return [*committed, *(randomness.sample(row) for row in rest)]

    return output_law(run, max_branches)

"""One round alone: the output distribution of a rejection sampler, ours or anybody's.

Whether a speculative round is lossless depends on a few lines: which drafts are
accepted, and what replaces the first one rejected. `distribution_of_one_round`
enumerates just these, at rows of probabilities that are given, without any model:

    found = distribution_of_one_round(my_sampler, target_rows, draft_rows)
    assert_same_distribution(found, distribution_of_rows(target_rows))

A sampler that draws from torch's own generator is wrapped in `torch_draws_from`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minispec.core.checked import checked_judge
from minispec.core.randomness import Randomness
from minispec.exactness.enumeration import Distribution, output_distribution

# tokens [K], draft_rows [K, V], target_rows [K + 1, V], a source of chance -> anything
# with n_accepted (0..K) and next_token, such as a Verdict: every Judge is one
RejectionSampler = Callable[[Tensor, Tensor, Tensor, Randomness], Any]


def distribution_of_one_round(
    sampler: RejectionSampler,
    target_rows: Tensor,
    draft_rows: Tensor,
    drawn_from: Tensor | None = None,
    max_branches: int = 100_000,
) -> Distribution:  # [K + 1, V], [K, V] -> of K + 1 tokens
    """What a rejection sampler commits, completed by the target to K + 1 tokens.

    K tokens are drafted from `draft_rows` and judged; what the round does not commit is
    drawn from the remaining `target_rows`. The sampler is lossless at these rows
    exactly if this is `distribution_of_rows(target_rows)`. The rows should differ by
    position: then a row taken from the wrong place shows. `drawn_from` [K, V] is for
    drafts that come from other rows than those declared, which breaks the contract.

    Raises as `enumerate_outputs` does, ValueError for shapes that do not fit, and as
    `core.checked` does for what a sampler returns.
    """
    K = len(draft_rows)
    if target_rows.shape != (K + 1, draft_rows.shape[-1]):
        raise ValueError(
            f"draft_rows of shape {list(draft_rows.shape)} need target_rows of shape "
            f"{[K + 1, draft_rows.shape[-1]]}, got {list(target_rows.shape)}"
        )
    source = draft_rows if drawn_from is None else drawn_from
    if source.shape != draft_rows.shape:
        raise ValueError(
            f"drawn_from must be as draft_rows, {list(draft_rows.shape)}, got "
            f"{list(source.shape)}"
        )
    judge = checked_judge(sampler)

    def run(randomness: Randomness) -> list[int]:
        drafted = [randomness.sample(row) for row in source]
        tokens = torch.tensor(drafted, dtype=torch.long)
        # Copies: a sampler that writes into them must not move what is expected.
        mine = tokens, draft_rows.clone(), target_rows.clone()
        verdict = judge(*mine, randomness)
        committed = [*drafted[: verdict.n_accepted], verdict.next_token]
        rest = target_rows[len(committed) :]
        return [*committed, *(randomness.sample(row) for row in rest)]

    return output_distribution(run, max_branches)


def distribution_of_rows(rows: Tensor) -> Distribution:  # [T, V] -> of T tokens
    """One token from each row, independently."""
    return output_distribution(lambda chance: [chance.sample(row) for row in rows])

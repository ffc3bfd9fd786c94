"""Which children a node gets: drawn or chosen, and the row that each comes from.

All draw from the draft's row q at that node. The second row is where they differ, and
where mistakes are made: it is the distribution of the second child *given the first*.

    without_replacement   q with the first child deleted, and normalised again
    with_replacement      q, as if there were no first child; equal children are wasted
    most_probable         one-hot: chosen, not drawn

If the deleted row is not normalised, ratios are too large and residuals keep too much.
With the target's row 2/3, 1/3, 0 and the draft's 1/2, 0, 1/2, two children then make
the second token come out with 1/6, where 1/3 is due (tests/trees/test_tree_choices.py).

Papers: with replacement, SpecInfer, Miao et al. 2023 (arXiv 2305.09781), section 4.3;
without, Jeon et al. 2024 (arXiv 2402.14160), and Sequoia, Chen et al. 2024 (arXiv
2402.12374), section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.core.sampling import Sampling

# A greedy target takes the draft's first choice more often (0.78 of the time, with the
# shipped pair) than the draft's probability of it says. At this temperature the draft's
# probabilities come close: trees of the 12 most probable nodes then bring 4.0 tokens
# per pass, and 3.5 at temperature 0.5.
SHARP = 0.3

# A row [V], how many children at most -> their tokens, the rows they come from [k, V]
Choice = Callable[[Tensor, int, Randomness], tuple[list[int], Tensor]]


def without_replacement(
    row: Tensor, k: int, randomness: Randomness
) -> tuple[list[int], Tensor]:  # [V] -> up to k, each with its row
    """Draw, delete what was drawn, normalise, draw again, while there is any mass."""
    tokens, rows = list[int](), list[Tensor]()
    while len(tokens) < k:
        tokens.append(randomness.sample(row))
        rows.append(row)
        rest = row.clone()
        rest[tokens[-1]] = 0.0
        mass = rest.sum()
        if not mass > 0:
            break
        row = rest / mass
    return tokens, torch.stack(rows)


def with_replacement(
    row: Tensor, k: int, randomness: Randomness
) -> tuple[list[int], Tensor]:  # [V] -> k, each with the same row
    """k independent draws."""
    return [randomness.sample(row) for _ in range(k)], row.expand(k, -1)


def most_probable(
    row: Tensor, k: int, randomness: Randomness
) -> tuple[list[int], Tensor]:  # [V] -> up to k, each with its row
    """The k most probable tokens, none of probability 0."""
    probs, tokens = row.topk(min(k, len(row)))
    tokens = tokens[probs > 0]
    return tokens.tolist(), F.one_hot(tokens, len(row)).to(row.dtype)


def ranking(sampling: Sampling) -> Sampling:
    """How to process the draft's logits in order to rank tokens.

    At temperature 0 a processed row holds one token only; the runners-up are in the row
    before. Rows that are only ranked may be anything, since the children are chosen.
    Their order is the same at any temperature, but how far a path is to be trusted is
    not: see SHARP.
    """
    if sampling.temperature > 0:
        return sampling
    return replace(sampling, temperature=SHARP, top_k=None, top_p=1.0, min_p=0.0)

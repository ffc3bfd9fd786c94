"""Which children a node gets: drawn or chosen, and the row that each comes from.

All start from the draft's row q at that node. The second row is where they differ, and
where mistakes are made: it is the distribution of the second child *given the first*.

    without_replacement   q with the first child deleted, and normalised again
    with_replacement      q, as if there were no first child; equal children are wasted
    most_probable         one-hot: chosen, not drawn

If the deleted row is not normalised, ratios are too large and residuals keep too much.
Say the target gives the tokens A, B, C 2/3, 1/3, 0 and the draft 1/2, 0, 1/2. With two
children, token B then comes out with probability 1/6, where 1/3 is due
(tests/trees/test_tree_choices.py).

Where the target's rows are one-hot (greedy and coupled decoding), one token is right
and there is nothing to draw: the children are the draft's best guesses at it. Its
processed row holds the first of them only; `child_rows` ranks the others too.

Papers: with replacement, SpecInfer, Miao et al. 2023 (arXiv 2305.09781), section 4.3;
without, Jeon et al. 2024 (arXiv 2402.14160), and Sequoia, Chen et al. 2024 (arXiv
2402.12374), section 3.2. Left out: Sequoia's last resort, a uniform row over the tokens
not yet tried, once the draft has no more of its own (algorithm 2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from minispec.core.coupling import noise_beside
from minispec.core.randomness import Randomness
from minispec.core.sampling import Sampling, logits_to_probs

# A greedy target takes the draft's first choice more often (0.78 of the time, with the
# shipped pair) than the draft's probability of it says. At this temperature the draft's
# probabilities come close: trees of the 12 most probable nodes then bring 4.0 tokens
# per pass, and 3.5 at temperature 0.5. For coupled targets it is the best too: 4.1
# tokens at temperature 0.8, where chains of 4 bring 2.7.
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


def is_certain(sampling: Sampling) -> bool:
    """Whether each row of the target has all its mass on one token."""
    return is_greedy(sampling) or sampling.noise_seed is not None


def is_greedy(sampling: Sampling) -> bool:
    """Whether that token is the most probable one."""
    return sampling.temperature == 0 or sampling.top_k == 1


def child_rows(
    logits: Tensor, sampling: Sampling, history: Tensor
) -> Tensor:  # [R, V], [n + R - 1] -> [R, V]
    """The draft's rows to take children from; where the target is certain, only ranks.

    A greedy target's token is probably among those of the highest logits, and a coupled
    one's among those of the highest log q + noise, since it has the same noise. The
    order is the same at any temperature, but how far a path is to be trusted is not:
    see SHARP.
    """
    if is_greedy(sampling):
        plain = replace(sampling, top_k=None, top_p=1.0, min_p=0.0, noise_seed=None)
        return logits_to_probs(logits, replace(plain, temperature=SHARP), history)
    rows = logits_to_probs(logits, replace(sampling, noise_seed=None), history)
    if sampling.noise_seed is None:
        return rows
    n = len(history) - (len(rows) - 1)
    scores = rows.double().log() + noise_beside(rows, sampling.noise_seed, n)
    return (scores / SHARP).softmax(dim=-1).to(rows.dtype)

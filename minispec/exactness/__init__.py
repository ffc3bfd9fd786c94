"""Exactness by enumeration: the whole distribution of an output, from the code itself.

A decoder is a deterministic function of its random decisions. There are finitely many
of them, each with a known probability, so it can be run once down every branch:

    P(output) = sum, over all branches of decisions that lead to it, of the product of
                their probabilities

Production code runs unaltered, with its caches, rollbacks, EOS and budget. To test a
decoder of your own, write it as a function of a `Randomness`:

    expected = output_distribution(the_target_alone)
    assert_same_distribution(output_distribution(mine), expected)

Read `enumeration` (how the branches are visited), `comparison` (where two distributions
part) and `one_round` (to test only how drafts are accepted and replaced). For code that
draws from torch, `random` or numpy there are `torch_chance`, `open_numbers` and
`float_stand_in`; what they cannot follow is named by `foreign`. For distributions too
large to enumerate there is `statistics`; what a judge that is not exact costs and buys,
`price` measures.
"""

from __future__ import annotations

from minispec.exactness.comparison import (
    assert_same_distribution,
    difference_table,
    largest_difference,
    total_variation,
)
from minispec.exactness.enumeration import (
    FLOAT32_ROUNDING,
    ROUNDING,
    Branch,
    Distribution,
    Enumeration,
    TooManyBranches,
    enumerate_outputs,
    output_distribution,
)
from minispec.exactness.foreign import NotEnumerable
from minispec.exactness.price import Price, price_of

__all__ = [
    "FLOAT32_ROUNDING",
    "ROUNDING",
    "Branch",
    "Distribution",
    "Enumeration",
    "NotEnumerable",
    "Price",
    "TooManyBranches",
    "assert_same_distribution",
    "difference_table",
    "enumerate_outputs",
    "largest_difference",
    "output_distribution",
    "price_of",
    "total_variation",
]

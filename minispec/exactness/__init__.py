"""Exactness by enumeration: the whole law of an output, from the code that makes it.

A decoder is a deterministic function of its random decisions. There are finitely many
of them, each with a known probability, so it can be run once down every branch:

    law(output) = sum, over all paths of decisions that lead to it, of the product of
                  their probabilities

Production code runs unaltered, with its caches, rollbacks, EOS and budget, and two
decoders are the same exactly if their laws are. To test a decoder of your own, write it
as a function of a `Randomness`:

    assert_same_law(output_law(mine), output_law(the_target_alone))

`enumeration.py` says how the branches are visited, and `comparison.py` shows where two
laws part. To test only how drafts are accepted and replaced, or code that draws from
torch's generator: `rejection.py`. For laws too large to enumerate: `statistics.py`.
"""

from __future__ import annotations

from minispec.exactness.comparison import (
    assert_same_law,
    comparison,
    largest_difference,
)
from minispec.exactness.enumeration import (
    ROUNDING,
    Enumeration,
    Law,
    TooManyBranches,
    enumerate_law,
    output_law,
)

__all__ = [
    "ROUNDING",
    "Enumeration",
    "Law",
    "TooManyBranches",
    "assert_same_law",
    "comparison",
    "enumerate_law",
    "largest_difference",
    "output_law",
]

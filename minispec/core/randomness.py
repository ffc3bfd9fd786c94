"""The one door through which chance enters.

Speculative decoding makes three kinds of random decision: which token the draft
proposes, whether the target accepts it, and which token follows the accepted ones:
resampled, the bonus, or a plain step's. All of them go through a `Randomness`, so that

- a seed fixes a whole decode, and no global generator is ever read or moved;
- `exactness/` can put an enumerating source in its place and visit every outcome of
  the very same code.
"""

from __future__ import annotations

import math
import random
from typing import Protocol, SupportsIndex

import numpy as np
from torch import Tensor

from minispec.checks import whole_number


class Randomness(Protocol):
    """A source of independent decisions."""

    def sample(self, probs: Tensor) -> int:  # [V] -> a token
        """Draw an id with these probabilities (float32 or wider, summing to 1)."""
        ...

    def accept(self, chance: float) -> bool:
        """True with probability min(1, chance): a uniform u in [0, 1) is below it."""
        ...


class Seeded:
    """The production source: independent uniforms in [0, 1) with 53 random bits."""

    def __init__(self, seed: SupportsIndex | None = None) -> None:
        """Without a seed, the operating system's entropy is used.

        Raises ValueError for a negative seed, TypeError for anything but an integer.
        """
        if seed is not None:
            seed = whole_number("a seed", seed, least=0)  # `random` drops the sign
        self._generator = random.Random(seed)

    def sample(self, probs: Tensor) -> int:
        """Invert the cumulative distribution at a uniform point.

        The id returned is the first whose cumulative mass exceeds the point, so its own
        mass is positive: a token of probability 0 never comes out. (A kernel such as
        torch.multinomial has returned such tokens in several releases.) The point lies
        strictly below the total: u is at most 1 - 2**-53, and such a u times the total
        rounds to a smaller float64 than the total. Raises ValueError for a row without
        mass or with NaN.
        """
        row = probs.cpu().numpy()  # of a decision, the one wait for the device
        cumulative = row.cumsum(dtype=np.float64)
        total = float(cumulative[-1])
        if not 0 < total < math.inf:
            raise ValueError(
                f"a row's mass must be positive and finite, got {total}: expected "
                "probabilities that sum to 1"
            )
        point = self._generator.random() * total
        return int(cumulative.searchsorted(point, side="right"))

    def accept(self, chance: float) -> bool:
        """Strictly u < chance: a chance of 0 never passes, one of 1 always does."""
        return self._generator.random() < chance

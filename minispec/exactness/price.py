"""What a judge that is not exact costs, beside what it buys.

    price = total variation between its texts and the target's = 1/2 sum |found - due|
    speed = E[tokens of a text] / E[rounds of a text]

Both by enumeration of the real decoder. The total variation is the largest error in
the probability of anything one may ask of a text. Longer texts never make it smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from minispec.core.randomness import Randomness
from minispec.core.rounds import Generation
from minispec.exactness.comparison import difference_table, total_variation
from minispec.exactness.enumeration import Distribution, output_distribution


@dataclass(frozen=True)
class Price:
    """How far the texts are from the target's, and how quickly they come."""

    found: Distribution
    expected: Distribution
    tokens_per_round: float

    @property
    def total_variation(self) -> float:
        """0 for an exact judge, 1 if no text of the one can be one of the other."""
        return total_variation(self.found, self.expected)

    def worst(self, n: int = 6) -> str:
        """The `n` sequences whose probabilities differ most, one a line."""
        return difference_table(self.found, self.expected, n)


def price_of(
    write: Callable[[Randomness], Generation], expected: Distribution
) -> Price:
    """Enumerate a decoder beside the distribution that its tokens should have.

    Raises as `enumerate_outputs` does.
    """

    def run(chance: Randomness) -> tuple[int, ...]:
        done = write(chance)
        return len(done.rounds), *done.tokens

    outputs = output_distribution(run)
    n_tokens = math.fsum(p * (len(output) - 1) for output, p in outputs.items())
    n_rounds = math.fsum(p * output[0] for output, p in outputs.items())
    found: dict[tuple[int, ...], list[float]] = {}
    for (_, *tokens), p in outputs.items():
        found.setdefault(tuple(tokens), []).append(p)
    texts = {tokens: math.fsum(probs) for tokens, probs in found.items()}
    return Price(texts, expected, n_tokens / n_rounds)

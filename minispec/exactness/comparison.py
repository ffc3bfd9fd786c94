"""Whether two distributions are the same, and where they differ if not."""

from __future__ import annotations

import math

from minispec.exactness.enumeration import (
    FLOAT32_ROUNDING,
    ROUNDING,
    Distribution,
)

N_SHOWN = 6  # sequences that a failure names
FLOAT32_HINT = (
    "\nSo little is what float32 leaves, also in torch.rand(1): draw in float64, or "
    f"allow it with tolerance=FLOAT32_ROUNDING ({FLOAT32_ROUNDING:.0e})"
)


def largest_difference(a: Distribution, b: Distribution) -> float:
    """The largest difference of any sequence's probability; NaN if one is NaN.

    Raises ValueError if both are empty: nothing was compared.
    """
    if not a and not b:
        raise ValueError("there is nothing to compare: both distributions are empty")
    return max(differences(a, b).values(), key=nan_first)


def differences(a: Distribution, b: Distribution) -> Distribution:
    """How far apart the two probabilities of each sequence are."""
    return {key: abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in a.keys() | b.keys()}


def nan_first(number: float) -> float:
    """A key for `max` and `sorted`, to which NaN is neither more nor less."""
    return math.inf if math.isnan(number) else number


def total_variation(a: Distribution, b: Distribution) -> float:
    """Half the sum of all differences: the share of texts that would have to change."""
    return math.fsum(differences(a, b).values()) / 2


def assert_same_distribution(
    a: Distribution, b: Distribution, tolerance: float = ROUNDING
) -> None:
    """Raise AssertionError if any sequence's probability differs by more.

    `a` is under test, `b` what it should be; the message shows the sequences that `a`
    produces too often or too rarely, the worst first.
    """
    difference = largest_difference(a, b)
    if not difference <= tolerance:
        hint = FLOAT32_HINT if difference <= FLOAT32_ROUNDING else ""
        raise AssertionError(
            f"the distributions differ by up to {difference:.3g} (tolerance "
            f"{tolerance:.3g}); of {len(a.keys() | b.keys())} sequences the worst:\n"
            f"{difference_table(a, b)}{hint}"
        )


def difference_table(a: Distribution, b: Distribution, n: int = N_SHOWN) -> str:
    """The sequences whose probabilities differ most, one a line."""
    far = differences(a, b)
    keys = sorted(far, key=lambda key: (-nan_first(far[key]), key))[:n]
    names = [" ".join(map(str, key)) or "(empty)" for key in keys]
    width = max([len("sequence"), *map(len, names)])
    lines = [f"{'sequence':<{width}}  {'found':>10}  {'expected':>10}  difference"]
    for key, name in zip(keys, names):
        found, expected = a.get(key, 0.0), b.get(key, 0.0)
        often = "too often" if found > expected else "too rarely"
        lines.append(
            f"{name:<{width}}  {found:10.7f}  {expected:10.7f}  "
            f"{found - expected:+10.3g}  {often if found != expected else ''}".rstrip()
        )
    return "\n".join(lines)

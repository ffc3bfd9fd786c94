"""Whether two laws are the same, and where they part if not."""

from __future__ import annotations

from minispec.exactness.enumeration import ROUNDING, Law

N_SHOWN = 6  # sequences that a failure names


def largest_difference(a: Law, b: Law) -> float:
    """The largest difference of any sequence's probability under two laws."""
    return max(abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in a.keys() | b.keys())


def assert_same_law(a: Law, b: Law, tolerance: float = ROUNDING) -> None:
    """Raise AssertionError if any sequence's probability differs by more.

    `a` is the law under test, `b` what it should be; the message shows the sequences
    that `a` produces too often or too rarely, the worst first.
    """
    difference = largest_difference(a, b)
    if not difference <= tolerance:
        raise AssertionError(
            f"the laws differ by up to {difference:.3g} (tolerance {tolerance:.3g}); "
            f"of {len(a.keys() | b.keys())} sequences the worst:\n{comparison(a, b)}"
        )


def comparison(a: Law, b: Law, n: int = N_SHOWN) -> str:
    """A table of the sequences whose probabilities differ most."""
    difference = {
        key: abs(a.get(key, 0.0) - b.get(key, 0.0)) for key in a.keys() | b.keys()
    }
    keys = sorted(difference, key=lambda key: (-difference[key], key))[:n]
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

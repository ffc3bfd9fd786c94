"""One way to compare, so that every failure shows the input, got and expected."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

N_SHOWN = 40  # numbers of a tensor


def agree(
    got: Any, expected: Any, broke: str, tolerance: float = 1e-12, **given: Any
) -> None:
    """`got` is `expected`, to `tolerance` if they are floats; else say what broke.

    `broke` is a sentence for the one who wrote the code, and `given` what went in, by
    name. Tensors must have the same shape; types may differ in width.
    """
    __tracebackhide__ = True
    if not _close(got, expected, tolerance):
        lines = [f"{name}: {shown(value)}" for name, value in given.items()]
        told = [shown(got), shown(expected)]
        if told[0] == told[1] and type(got) is not type(expected):  # [0.5] is a Tensor?
            told = [f"{s}, {type(v).__name__}" for s, v in zip(told, (got, expected))]
        elif told[0] == told[1] and isinstance(expected, float):
            told = [repr(got), repr(expected)]
        lines += [f"got: {told[0]}", f"expected: {told[1]}"]
        if _comparable(got, expected) and (difference := _difference(got, expected)):
            finite = f"{difference:.2g}" if math.isfinite(difference) else "not finite"
            lines += [f"largest difference: {finite}"]
        raise AssertionError("\n  ".join([broke, *lines]))


def same_odds(
    got: Mapping[Any, float], expected: Mapping[Any, float], broke: str, **given: Any
) -> None:
    """Two distributions agree; else the outcome that is furthest off is shown."""
    __tracebackhide__ = True
    off = {o: abs(got.get(o, 0.0) - expected.get(o, 0.0)) for o in {**got, **expected}}
    one = max(off, key=lambda outcome: off[outcome])
    broke = f"{broke} Furthest off is {one}, of probability:"
    agree(got.get(one, 0.0), expected.get(one, 0.0), broke, **given)


@contextmanager
def value_error(**given: Any) -> Iterator[None]:
    """A ValueError must be raised inside, whatever it says."""
    __tracebackhide__ = True
    try:
        yield
    except ValueError:
        return
    agree("no error", "a ValueError", "This is out of range.", **given)


def shown(value: Any) -> str:
    """In small numbers: few digits, and the shape of what is too large to show."""
    if isinstance(value, Tensor):
        if value.numel() > N_SHOWN:
            return f"a tensor of shape {list(value.shape)}"
        empty = f" of shape {list(value.shape)}" if value.numel() == 0 else ""
        return shown(value.tolist()) + empty
    if isinstance(value, (list, tuple)) and len(value) <= N_SHOWN:
        inside = ", ".join(shown(one) for one in value)
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, float):
        text = f"{value:.4g}"
        rounded = text.lstrip("-").isdigit() and float(text) != value
        return repr(value) if rounded else text  # 0.99999 is not 1
    return f"{value!r:.300}"


def _comparable(got: Any, expected: Any) -> bool:
    both = isinstance(got, Tensor) and isinstance(expected, Tensor)
    return both and got.shape == expected.shape and expected.is_floating_point()


def _difference(got: Tensor, expected: Tensor) -> float:
    off = (got.double() - expected.double()).abs().nan_to_num(math.inf, math.inf)
    off = off.where(got != expected, 0)  # two infinities may be the same
    return float(off.max()) if off.numel() else 0.0


def _close(got: Any, expected: Any, tolerance: float) -> bool:
    if _comparable(got, expected):
        wide = got.double(), expected.double()
        return torch.allclose(*wide, rtol=0, atol=tolerance)
    if isinstance(expected, Tensor):
        alike = isinstance(got, Tensor) and got.shape == expected.shape
        return alike and bool((got == expected).all())
    if isinstance(expected, float):
        return isinstance(got, (int, float)) and abs(got - expected) <= tolerance
    return bool(got == expected)

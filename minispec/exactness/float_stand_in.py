"""The builtin `float`, while random numbers are open: float(u) is then u, still open.

Python lets float(u) be nothing but a number, which u is not. So `float` itself is
replaced by `Float` meanwhile, which must pass for `float` everywhere else:

- isinstance and issubclass ask the metaclass, and numpy reads the attribute `dtype`;
- torch knows no stand-in (dtype=float). So each of its functions whose documentation
  names a dtype gets the real `float` instead.

torch.tensor and its like copy what a tensor of open numbers holds, past every hook.
They raise NotEnumerable. Left out: `type(x) is float`, which is False meanwhile.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minispec.exactness.open_numbers import OpenNumber, OpenTensor, cannot

REAL_FLOAT = float
COPIES = ("tensor", "as_tensor", "asarray", "from_numpy", "new_tensor")


class FloatOrOpen(type):
    """The type of `Float`, which leaves open numbers open."""

    def __call__(cls, value: Any = 0.0) -> Any:
        is_open = isinstance(value, (OpenNumber, OpenTensor))
        return value.item() if is_open else REAL_FLOAT(value)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, REAL_FLOAT)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, REAL_FLOAT)


class Float(float, metaclass=FloatOrOpen):
    """Stands in for `float`."""

    dtype = np.dtype("float64")  # what numpy takes it for


def with_float(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, told `float` where it is given the stand-in."""

    @functools.wraps(function)  # torch asks an open number by this name
    def told(*args: Any, **options: Any) -> Any:
        if function.__name__ in COPIES and any(map(holds_open, args)):
            cannot(f"`{function.__name__}` of a random number")
        real = (REAL_FLOAT if one is Float else one for one in args)
        named = {k: REAL_FLOAT if v is Float else v for k, v in options.items()}
        return function(*real, **named)

    return told


def holds_open(value: Any) -> bool:
    """Whether it is an open number, or a sequence or an array with one in it."""
    if isinstance(value, (list, tuple)):
        return any(map(holds_open, value))
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(map(holds_open, value.flat))
    return isinstance(value, (OpenNumber, OpenTensor))


def takes_dtype(owner: Any, name: str) -> bool:
    """Whether a function of torch does, by its documentation."""
    function = getattr(owner, name)
    said = getattr(function, "__doc__", None) or ""
    is_function = callable(function) and not isinstance(function, type)
    return is_function and ("dtype=" in said or "dtype (" in said or name in COPIES)


WITH_FLOAT: dict[Any, dict[str, Callable[..., Any]]] = {
    owner: {
        name: with_float(getattr(owner, name))
        for name in dir(owner)
        if not name.startswith("_") and takes_dtype(owner, name)
    }
    for owner in (torch, Tensor)
}

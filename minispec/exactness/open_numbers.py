"""Random numbers that are left open until they are compared.

A sampler asks whether u < p. To enumerate it, u itself need not be known: the answer is
yes with probability p. So a uniform is an interval, at first all of [0, 1). Each
comparison is one decision of the `Randomness` and keeps the part of the interval where
its answer is true: one u may be compared with many numbers, such as all of a cumulative
distribution. It may be scaled and shifted before (1 - u, q * u), indexed and reshaped.

What is enumerated is what floating point does: uniforms are multiples of 2**-24 in
float32 and of 2**-53 in float64, 0 among them. So u <= 0 has a chance where u < 0 has
none. Left out: how q * u is rounded, and everything else that one can do with a random
number, which raises NotEnumerable.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.exactness.foreign import NotEnumerable

BITS = {torch.float32: 24, torch.float64: 53}  # of a uniform, on the CPU


def cannot(use: str) -> NoReturn:
    """Reject a use of an open number."""
    raise NotEnumerable(
        f"{use} cannot be enumerated: uniforms can be compared, scaled and shifted, "
        "exponential noise used in argmax(probs / noise); test this sampler by "
        "statistics (exactness/statistics.py)"
    )


def check_width(dtype: torch.dtype) -> None:
    """The grid of shorter uniforms depends on the kernel."""
    if dtype not in BITS:
        cannot(f"a uniform of {dtype}")


class Uniform:
    """One of the multiples low..high - 1 of 1 / n_steps; which one is open."""

    def __init__(self, randomness: Randomness, dtype: torch.dtype) -> None:
        check_width(dtype)
        self.randomness, self.n_steps = randomness, 2 ** BITS[dtype]
        self.low, self.high = 0, self.n_steps

    def is_below(self, step: int) -> bool:
        """A decision, which holds from then on."""
        step = min(max(step, self.low), self.high)
        below = self.randomness.accept((step - self.low) / (self.high - self.low))
        self.low, self.high = (self.low, step) if below else (step, self.high)
        return below


def with_number(operation: Callable[..., Any]) -> Callable[..., Any]:
    """An operation on an open number and a plain one: now also on a tensor of them."""

    @functools.wraps(operation)
    def general(self: OpenNumber, other: Any) -> Any:
        if isinstance(other, Tensor):
            return elementwise(getattr(operator, operation.__name__), self, other)
        if isinstance(other, np.ndarray):
            return NotImplemented  # numpy goes through its elements
        if isinstance(other, OpenNumber):
            cannot("two random numbers in one sum, product or comparison")
        return operation(self, float(other))

    return general


@dataclass(frozen=True, eq=False)
class OpenNumber:
    """scale * u + shift."""

    uniform: Uniform
    scale: float = 1.0
    shift: float = 0.0

    @with_number
    def __lt__(self, other: float) -> bool:
        return self._compare(other, strictly=True)

    @with_number
    def __le__(self, other: float) -> bool:
        return self._compare(other, strictly=False)

    def _compare(self, other: float, strictly: bool) -> bool:
        if math.isnan(other):
            return False
        if self.scale == 0:
            return self.shift < other or (self.shift == other and not strictly)
        limit = (other - self.shift) / self.scale
        steps = min(max(limit, -1.0), 2.0) * self.uniform.n_steps
        # u < limit or u <= limit; if the number falls as u rises, the opposite is not
        rises = self.scale > 0
        step = math.ceil(steps) if strictly == rises else math.floor(steps) + 1
        return self.uniform.is_below(step) == rises

    @with_number
    def __mul__(self, other: float) -> OpenNumber:
        return OpenNumber(self.uniform, self.scale * other, self.shift * other)

    @with_number
    def __truediv__(self, other: float) -> OpenNumber:
        return OpenNumber(self.uniform, self.scale / other, self.shift / other)

    @with_number
    def __add__(self, other: float) -> OpenNumber:
        return OpenNumber(self.uniform, self.scale, self.shift + other)

    __rmul__, __radd__ = __mul__, __add__

    def __neg__(self) -> Any:
        return self * -1.0

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __gt__(self, other: Any) -> Any:
        return -self < -other

    def __ge__(self, other: Any) -> Any:
        return -self <= -other

    def item(self) -> OpenNumber:
        return self

    def __float__(self) -> float:
        cannot("the value of a random number")

    def __eq__(self, other: object) -> bool:
        cannot("whether a random number equals another")

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name.startswith("_"):
            raise AttributeError(name)
        return rejecting(name)  # to be called: numpy's log(u) is u.log()

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return OpenTensor.__torch_function__(func, types, args, kwargs)


def rejecting(name: str) -> Callable[..., NoReturn]:
    """A function or method that cannot be asked of an open number."""
    return lambda *_: cannot(f"`{name.strip('_')}` of a random number")


def reject_the_rest() -> None:
    """All else that a float can do is rejected by name, in place of a TypeError."""
    others = {
        name
        for name in dir(float)
        if getattr(float, name) is not getattr(object, name, None)
    }
    # A length and items: torch.tensor takes u for a sequence, and asks.
    others |= {"__index__", "__len__", "__getitem__", "__reduce_ex__"}
    for name in others - {"__new__", "__getattribute__", "__getnewargs__"}:
        if vars(OpenNumber).get(name) is None:  # as `__hash__`, next to `__eq__`
            setattr(OpenNumber, name, rejecting(name))
    for name in ("real", "imag"):
        setattr(OpenNumber, name, property(rejecting(name)))


reject_the_rest()

OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in ("lt", "le", "gt", "ge")},
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "neg")},
    "div": operator.truediv,
    "rsub": lambda a, b: b - a,
    "searchsorted": lambda cdf, u, right=False, side="left": (
        (operator.le if right or side == "right" else operator.lt)(
            cdf[..., None, :], u[..., None]
        ).sum(-1)
    ),
}
# What moves numbers about and leaves them as they are
STRUCTURE = (
    "get getitem len size dim ndim numel unbind view reshape flatten squeeze unsqueeze "
    "expand expand_as gather transpose t clone detach contiguous to cpu double float"
).split()


class OpenTensor(Tensor):
    """A tensor of open numbers: its own values are their places in `numbers`."""

    numbers: np.ndarray[Any, Any]  # [n]

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = func.__name__.removeprefix("__").removesuffix("__")
        first = args[0] if args else None
        if name in OPERATIONS:
            for unknown in (kwargs or {}).keys() - {"right", "side"}:
                cannot(f"`{name}` of a random number with `{unknown}`")
            return elementwise(OPERATIONS[name], *args, **(kwargs or {}))
        if name in ("item", "tolist"):
            return getattr(cells(first), name)()
        if name not in STRUCTURE or not isinstance(first, OpenTensor):
            cannot(f"`{name}` of a random number")
        moved = super().__torch_function__(func, types, args, kwargs)
        for part in moved if isinstance(moved, tuple) else [moved]:
            if isinstance(part, OpenTensor):
                part.numbers = first.numbers
                check_width(part.as_subclass(Tensor).dtype)
        return moved


def left_open(buffer: Any, numbers: np.ndarray[Any, Any]) -> OpenTensor:
    """`buffer` itself, turned into these numbers."""
    buffer.copy_(torch.arange(buffer.numel()).view(buffer.shape))
    buffer.__class__, buffer.numbers = OpenTensor, numbers.reshape(-1)
    return buffer


def cells(value: Any) -> Any:
    """As an array of numbers, some of them open."""
    if isinstance(value, OpenTensor):
        places = value.as_subclass(Tensor).long().cpu().numpy()
        return np.asarray(value.numbers[places], dtype=object)
    if isinstance(value, Tensor):
        return value.detach().cpu().double().numpy()
    return np.asarray(value)


def elementwise(operation: Callable[..., Any], *operands: Any, **how: Any) -> Tensor:
    """What was decided, or numbers that are still open."""
    result = np.asarray(operation(*map(cells, operands), **how))
    if result.dtype != object:
        return torch.from_numpy(result)
    return left_open(torch.empty(result.shape, dtype=torch.float64), result)

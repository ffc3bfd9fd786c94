"""Samplers that draw from global generators, enumerated all the same.

Inside `torch_draws_from(randomness)`, what one usually draws from torch, `random` and
numpy asks `randomness`, and the generators stay where they are: DOORS lists the
functions. Uniforms are left open until they are compared (`open_numbers`). Exponential
noise is good for one thing: argmax(probs / noise), which is a draw from probs.

Left out: functions imported by name before (from torch import rand), generator objects
of numpy and `random`, normal and Gumbel noise. All of them raise NotEnumerable, if not
here then in `enumerate_outputs` (`foreign`).
"""

from __future__ import annotations

import builtins
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.exactness.open_numbers import (
    OpenNumber,
    OpenTensor,
    Uniform,
    cannot,
    left_open,
)

# A stand-in takes the `Randomness`, then the arguments of what it stands in for; `_`
# collects the generators.

# ------------------------------------------------------------------------- uniforms


def uniform(
    ask: Randomness,
    low: float = 0.0,
    high: float = 1.0,
    size: int | tuple[int, ...] | None = None,
    dtype: torch.dtype = torch.float64,
) -> Any:
    """An array of open numbers; without a size, one of them."""
    numbers = np.empty(() if size is None else size, dtype=object)
    for place in np.ndindex(numbers.shape):
        numbers[place] = OpenNumber(Uniform(ask, dtype), high - low, low)
    return numbers if numbers.shape else numbers.item()


def uniform_(
    ask: Randomness, buffer: Tensor, low: float = 0.0, high: float = 1.0, **_: Any
) -> Tensor:
    size = tuple(emptied(buffer).shape)
    return left_open(buffer, np.asarray(uniform(ask, low, high, size, buffer.dtype)))


def emptied(buffer: Tensor) -> Tensor:
    """`buffer`, with nothing open in it; not a part, or the whole would not know."""
    buffer.__class__ = Tensor
    if buffer._is_view():
        cannot("a random part of a tensor")
    return buffer


def rand(ask: Randomness, *size: Any, generator: Any = None, **options: Any) -> Tensor:
    return uniform_(ask, torch.empty(*size, **options))


def rand_like(
    ask: Randomness, input: Tensor, generator: Any = None, **options: Any
) -> Tensor:
    return uniform_(ask, torch.empty_like(input, **options))


class FloatOrOpen(type):
    """The type of `Float`, which leaves open numbers open."""

    def __call__(cls, value: Any = 0.0) -> Any:
        is_open = isinstance(value, (OpenNumber, OpenTensor))
        return value.item() if is_open else REAL_FLOAT(value)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, REAL_FLOAT)


REAL_FLOAT = float


class Float(float, metaclass=FloatOrOpen):
    """Stands in for `float`: float(u) would have to be a number, which u is not."""

    dtype = np.dtype("float64")  # what numpy takes it for


# ---------------------------------------------------------------------------- draws


def multinomial(
    ask: Randomness, input: Tensor, num_samples: int, *_: Any, **__: Any
) -> Tensor:  # [..., V] -> [..., 1]
    if num_samples != 1:
        cannot(f"a draw of {num_samples} tokens at once")
    if not (input >= 0).all() or not (input.sum(-1) > 0).all():
        raise RuntimeError("torch.multinomial rejects NaN, negative or no mass")
    rows = input.double().reshape(-1, input.shape[-1])
    drawn = [ask.sample(row / row.sum()) for row in rows]
    return torch.tensor(drawn, dtype=torch.long).view(*input.shape[:-1], 1)


def choice(ask: Randomness, a: Any, size: Any = None, *, p: Any) -> Any:
    if size is not None:
        cannot("numpy.random.choice with a size")
    token = int(multinomial(ask, torch.as_tensor(p, dtype=torch.float64), 1))
    return token if isinstance(a, int) else a[token]


def bernoulli_(ask: Randomness, buffer: Tensor, p: Any = 0.5, **_: Any) -> Tensor:
    chances = torch.as_tensor(p, dtype=torch.float64).expand(buffer.shape)
    if not ((0 <= chances) & (chances <= 1)).all():
        raise RuntimeError("torch.bernoulli rejects NaN and what is not in [0, 1]")
    answers = [ask.accept(chance) for chance in chances.flatten().tolist()]
    return buffer.copy_(torch.tensor(answers).view(buffer.shape))


def bernoulli(ask: Randomness, input: Tensor, p: Any = None, **_: Any) -> Tensor:
    return bernoulli_(ask, input.clone(), input if p is None else p)


class OpenNoise(Tensor):
    """Exponential noise, for argmax(probs / noise): decided where it divides."""

    ask: Randomness | None  # None once it is used

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = func.__name__
        if name not in ("div", "div_") or type(args[0]) is not Tensor:
            cannot(f"`{name}` of exponential noise")
        probs, noise = args
        if noise.ask is None or noise.as_subclass(Tensor).shape != probs.shape:
            cannot("exponential noise that two draws share")
        drawn, noise.ask = multinomial(noise.ask, probs, 1), None
        largest = torch.zeros_like(probs).scatter_(-1, drawn, 1.0)
        return probs.copy_(largest) if name == "div_" else largest


def exponential_(ask: Randomness, buffer: Any, lambd: float = 1.0, **_: Any) -> Tensor:
    emptied(buffer).__class__, buffer.ask = OpenNoise, ask
    return buffer


# ------------------------------------------------------------------------- the doors

DOORS: dict[Any, dict[str, Callable[..., Any]]] = {
    torch: {
        "rand": rand,
        "rand_like": rand_like,
        "multinomial": multinomial,
        "bernoulli": bernoulli,
    },
    Tensor: {
        "uniform_": uniform_,
        "exponential_": exponential_,
        "multinomial": multinomial,
        "bernoulli": bernoulli,
        "bernoulli_": bernoulli_,
    },
    random: {"random": uniform, "uniform": uniform},
    np.random: {
        "rand": lambda ask, *size: uniform(ask, size=size),
        "random": lambda ask, size=None: uniform(ask, size=size),
        "uniform": uniform,
        "choice": choice,
    },
}


@contextmanager
def torch_draws_from(randomness: Randomness) -> Iterator[None]:
    """Inside, all that DOORS names asks `randomness`."""

    def asking(stand_in: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **options: stand_in(randomness, *args, **options)

    with ExitStack() as stack:
        for owner, functions in DOORS.items():
            asked: dict[str, Any] = {name: asking(f) for name, f in functions.items()}
            stack.enter_context(patch.multiple(owner, **asked))
        stack.enter_context(patch.object(builtins, "float", Float))
        yield

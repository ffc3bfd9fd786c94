"""Samplers that draw from global generators, enumerated all the same.

Inside `torch_draws_from(randomness)`, what one usually draws from torch, `random` and
numpy asks `randomness`, and the generators stay where they are: DOORS lists the
functions. Uniforms are left open until they are compared (`open_numbers`). Exponential
noise is good for one thing: argmax(probs / noise), which is a draw from probs.

Left out: functions imported by name before (from torch import rand), generator objects
(which are seeded once, and no chance after that), normal and Gumbel noise. All of them
raise NotEnumerable, if not here then in `enumerate_outputs` (`foreign`).
"""

from __future__ import annotations

import builtins
import functools
import inspect
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.exactness.float_stand_in import WITH_FLOAT, Float
from minispec.exactness.open_numbers import (
    OpenNumber,
    OpenTensor,
    Uniform,
    cannot,
    left_open,
)

# A stand-in takes the `Randomness`, then the arguments of what it stands in for.

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
    ask: Randomness, buffer: Tensor, low: float = 0.0, to: float = 1.0
) -> Tensor:
    size = tuple(emptied(buffer).shape)
    return left_open(buffer, np.asarray(uniform(ask, low, to, size, buffer.dtype)))


def emptied(buffer: Tensor) -> Tensor:
    """`buffer`, with nothing open in it; not a part, or the whole would not know."""
    buffer.__class__ = Tensor
    if buffer._is_view():
        cannot("a random part of a tensor")
    return buffer


def rand(ask: Randomness, *size: Any, **options: Any) -> Tensor:
    return uniform_(ask, torch.empty(*size, **options))


def rand_like(ask: Randomness, input: Tensor, **options: Any) -> Tensor:
    return uniform_(ask, torch.empty_like(input, **options))


# ---------------------------------------------------------------------------- draws


def multinomial(
    ask: Randomness, input: Tensor, num_samples: int, replacement: bool = False
) -> Tensor:  # [..., V] -> [..., 1]
    if num_samples != 1:
        cannot(f"a draw of {num_samples} tokens at once")
    if not (input >= 0).all() or not (input.sum(-1) > 0).all():
        raise RuntimeError("torch.multinomial rejects NaN, negative or no mass")
    rows = input.double().reshape(-1, input.shape[-1])
    drawn = [ask.sample(row / row.sum()) for row in rows]
    return torch.tensor(drawn, dtype=torch.long).view(*input.shape[:-1], 1)


def choice(
    ask: Randomness, a: Any, size: Any = None, replace: bool = True, p: Any = None
) -> Any:
    if size is not None:
        cannot("numpy.random.choice with a size")
    ids = np.arange(a) if np.ndim(a) == 0 else a
    weights = np.ones(len(ids)) if p is None else p
    return ids[int(multinomial(ask, torch.as_tensor(weights, dtype=torch.float64), 1))]


def bernoulli_(ask: Randomness, buffer: Tensor, p: Any = 0.5) -> Tensor:
    chances = torch.as_tensor(p, dtype=torch.float64).expand(buffer.shape)
    if not ((0 <= chances) & (chances <= 1)).all():
        raise RuntimeError("torch.bernoulli rejects NaN and what is not in [0, 1]")
    answers = [ask.accept(chance) for chance in chances.flatten().tolist()]
    return buffer.copy_(torch.tensor(answers).view(buffer.shape))


def bernoulli(ask: Randomness, input: Tensor, p: Any = None) -> Tensor:
    return bernoulli_(ask, input.clone(), input if p is None else p)


class OpenNoise(OpenTensor):
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


def exponential_(ask: Randomness, buffer: Any, lambd: float = 1.0) -> Tensor:
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


signature = functools.cache(inspect.signature)


@contextmanager
def torch_draws_from(randomness: Randomness) -> Iterator[None]:
    """Inside, all that DOORS names asks `randomness`."""

    def asking(stand_in: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, generator: Any = None, **options: Any) -> Any:
            if generator not in (None, torch.default_generator):
                cannot("a draw from a generator object (pass none, to ask for chance)")
            try:
                signature(stand_in).bind(randomness, *args, **options)
            except TypeError as error:
                cannot(f"a draw with other arguments ({error})")
            return stand_in(randomness, *args, **options)

        return asked

    with ExitStack() as stack:
        for owner, stand_ins in DOORS.items():
            asked = {name: asking(stand_in) for name, stand_in in stand_ins.items()}
            functions = WITH_FLOAT.get(owner, {}) | asked
            stack.enter_context(replaced(owner, functions))
        stack.enter_context(replaced(builtins, {"float": Float}))
        yield


@contextmanager
def replaced(owner: Any, functions: dict[str, Any]) -> Iterator[None]:
    """Inside, the owner has these; afterwards what it had, or inherited, before."""
    had = {name: vars(owner)[name] for name in functions if name in vars(owner)}
    try:
        for name, function in functions.items():
            setattr(owner, name, function)
        yield
    finally:
        for name in functions:
            if name in had:
                setattr(owner, name, had[name])
            else:
                delattr(owner, name)

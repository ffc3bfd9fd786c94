"""Samplers over global generators: right ones pass, wrong ones and others are named."""

from __future__ import annotations

import builtins
import copy
import math
import random
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from minispec.core.randomness import Randomness, Seeded
from minispec.core.rejection import Verdict
from minispec.exactness import (
    FLOAT32_ROUNDING,
    NotEnumerable,
    assert_same_distribution,
    output_distribution,
)
from minispec.exactness.float_stand_in import WITH_FLOAT
from minispec.exactness.foreign import global_states
from minispec.exactness.one_round import distribution_of_one_round, distribution_of_rows
from minispec.exactness.torch_chance import DOORS, torch_draws_from

ROWS = torch.tensor(
    [[6, 3, 1], [1, 1, 2], [2, 2, 6], [2, 5, 3], [1, 2, 1]], dtype=torch.float64
)
ROWS /= ROWS.sum(-1, keepdim=True)
TARGET, DRAFT = ROWS[:3], ROWS[3:]
WIDE: dict[str, Any] = {"dtype": torch.float64}
ONES = torch.ones(3)
GLOBAL = torch.default_generator

# ------------------------------------------------------------------ Algorithm 1, often

Accept = Callable[[Tensor, Tensor], Any]  # target and draft probability of a token
ACCEPT: dict[str, Accept] = {
    "rand": lambda t, d: torch.rand(1, **WIDE) < t / d,
    "rand by size": lambda t, d: t / d > torch.rand(size=(1, 1), **WIDE),
    "rand by index": lambda t, d: torch.rand(3, **WIDE)[1] < t / d,
    "rand of a generator": lambda t, d: torch.rand(1, generator=GLOBAL) < t / d,
    "r in a loop": lambda t, d: all(not r > t / d for r in torch.rand(1, **WIDE)),
    "float": lambda t, d: float(torch.rand(1, **WIDE)) < float(t / d),
    "item": lambda t, d: torch.rand((), **WIDE).item() <= min(1, t / d),
    "item and tensor": lambda t, d: t / d >= torch.rand(1, **WIDE).item(),
    "q * r < p": lambda t, d: d * torch.rand(1, **WIDE) < t,
    "p > r * q": lambda t, d: t.item() > torch.rand(1, **WIDE).item() * d.item(),
    "1 - r": lambda t, d: 1 - torch.rand(1, **WIDE) <= t / d,
    "r - 1": lambda t, d: -t / d < torch.rand(1, **WIDE) - 1,
    "rand_like": lambda t, d: torch.rand_like(t) < t / d,
    "uniform_": lambda t, d: torch.empty(1, **WIDE).uniform_() < t / d,
    "uniform_ of a width": lambda t, d: t.new_empty(1).uniform_(0, 2) / 2 < t / d,
    "uniform_ to": lambda t, d: t.new_empty(1).uniform_(to=2) / 2 < t / d,
    "uniform_ in place": lambda t, d: [u := t.new_empty(1), u.uniform_(), u < t / d][2],
    "bernoulli": lambda t, d: torch.bernoulli((t / d).clamp(max=1)),
    "bernoulli of its own": lambda t, d: (t / d).clamp(max=1).bernoulli(),
    "bernoulli_": lambda t, d: torch.empty(1).bernoulli_(min(1.0, float(t / d))),
    "Uniform": lambda t, d: torch.distributions.Uniform(0, 1.0).sample() * d < t,
    "random": lambda t, d: random.random() < t / d,
    "uniform": lambda t, d: float(t / d) > random.uniform(0, 1),
    "np rand": lambda t, d: np.random.rand() < np.float64(t / d),
    "np random": lambda t, d: (np.array([t / d]) > np.random.random(1)).all(),
    "np uniform": lambda t, d: np.random.uniform(0, 1, (2, 2))[0, 1] < (t / d).item(),
}
IN_FLOAT32 = {"rand of a generator", "Uniform"}
Draw = Callable[[Tensor], Any]  # from weights [V]
DRAW: dict[str, Draw] = {
    "multinomial": lambda p: torch.multinomial(input=p, num_samples=1),
    "multinomial of its own": lambda p: p[None].multinomial(1, generator=GLOBAL)[0],
    "Categorical": lambda p: torch.distributions.Categorical(p).sample(),
    "exponential": lambda p: (p / torch.empty_like(p).exponential_(1)).argmax(),
    "exponential in place": lambda p: p.clone()
    .div_(torch.empty_like(p).exponential_())
    .argmax(dim=-1, keepdim=True),
    "cumulated": lambda p: (p.cumsum(0) / p.sum() <= torch.rand(1, **WIDE)).sum(),
    "searchsorted": lambda p: torch.searchsorted(
        p.cumsum(0) / p.sum(), torch.rand(1, **WIDE), right=True
    ),
    "a tensor of type float": lambda p: torch.searchsorted(
        torch.tensor((p.cumsum(0) / p.sum()).tolist(), dtype=float),
        torch.rand(1, dtype=float),
        side="right",
    ),
    "np choice": lambda p: np.random.choice(len(p), p=(p / p.sum()).numpy()),
    "np cumulated": lambda p: (
        np.cumsum((p / p.sum()).numpy()) > np.random.rand()
    ).argmax(),
}


def algorithm_1(
    accept: Accept, draw: Draw, residual: bool = True
) -> Callable[..., Verdict]:
    def sampler(
        tokens: Tensor, draft: Tensor, target: Tensor, chance: Randomness
    ) -> Verdict:
        with torch_draws_from(chance):
            for i, token in enumerate(tokens):
                if not accept(target[i, token], draft[i, token]):
                    rest = target[i] - draft[i] if residual else target[i]
                    return Verdict(i, int(draw(rest.clamp(min=0))))
            return Verdict(len(tokens), int(draw(target[-1])))

    return sampler


def check(sampler: Callable[..., Verdict], tolerance: float = 1e-12) -> None:
    found = distribution_of_one_round(sampler, TARGET, DRAFT)
    assert_same_distribution(found, distribution_of_rows(TARGET), tolerance)


@pytest.mark.parametrize("idiom", ACCEPT)
def test_every_way_to_accept_is_enumerated(idiom: str) -> None:
    accept = ACCEPT[idiom]
    tolerance = FLOAT32_ROUNDING if idiom in IN_FLOAT32 else 1e-12
    check(algorithm_1(accept, DRAW["multinomial"]), tolerance)
    with pytest.raises(AssertionError, match="too often"):
        check(algorithm_1(lambda t, d: accept(d, t), DRAW["multinomial"]), 1e-3)


@pytest.mark.parametrize("idiom", DRAW)
def test_every_way_to_draw_is_enumerated(idiom: str) -> None:
    check(algorithm_1(ACCEPT["rand"], DRAW[idiom]))
    with pytest.raises(AssertionError, match="too often"):
        check(algorithm_1(ACCEPT["rand"], DRAW[idiom], residual=False), 1e-3)


@pytest.mark.parametrize(
    "accept",
    [
        lambda t, d: torch.rand(1) < t / d,
        lambda t, d: torch.empty(1).uniform_() * d < t,
    ],
)
def test_float32_is_told_from_a_mistake(accept: Accept) -> None:
    sampler = algorithm_1(accept, DRAW["multinomial"])
    check(sampler, FLOAT32_ROUNDING)
    with pytest.raises(AssertionError, match="tolerance=FLOAT32_ROUNDING"):
        check(sampler)


# ------------------------------------------------------------- what a comparison does


@given(threshold=st.floats(-0.5, 1.5) | st.sampled_from([0.0, 1.0, 2.0**-24, 1e-9]))
@pytest.mark.parametrize("dtype, bits", [(torch.float32, 24), (torch.float64, 53)])
def test_a_comparison_has_the_chance_of_the_grid(
    dtype: torch.dtype, bits: int, threshold: float
) -> None:
    """Of the multiples of 2**-bits in [0, 1): how many lie below the threshold.

    So u <= 0 accepts what the target forbids once in 2**24 draws, and u < 0 never does.
    """
    t = torch.tensor([threshold], dtype=dtype)
    steps = t.double().item() * 2**bits
    for signs, count in {
        (lambda u: u < t, lambda u: t > u): math.ceil(steps),
        (lambda u: u <= t, lambda u: t >= u): math.floor(steps) + 1,
    }.items():
        for compare in signs:

            def run(chance: Randomness) -> list[int]:
                with torch_draws_from(chance):
                    return [int(compare(torch.rand(1, dtype=dtype)))]

            expected = min(max(count, 0), 2**bits) / 2**bits
            assert output_distribution(run).get((1,), 0.0) == expected


@given(limits=st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=4))
def test_one_uniform_may_be_compared_often(limits: list[float]) -> None:
    """Its answers agree: how many of some limits lie above it is one draw."""

    def run(chance: Randomness) -> list[int]:
        with torch_draws_from(chance):
            u = torch.rand((), **WIDE)
            return [int((u < torch.tensor(limits, **WIDE)).sum())]

    cuts = [1.0, *sorted((min(max(limit, 0.0), 1.0) for limit in limits), reverse=True)]
    expected = {(n,): a - b for n, (a, b) in enumerate(zip(cuts, [*cuts[1:], 0.0]))}
    assert_same_distribution(output_distribution(run), expected)


def test_a_buffer_may_be_filled_again() -> None:
    buffer = torch.empty(3, **WIDE)

    def run(chance: Randomness) -> list[int]:
        with torch_draws_from(chance):
            small = [buffer.uniform_()[0] < 0.25 for _ in range(2)]
            return [*map(int, small), int((TARGET[0] / buffer.exponential_()).argmax())]

    coin = torch.tensor([0.75, 0.25, 0.0], **WIDE)
    expected = distribution_of_rows(torch.stack([coin, coin, TARGET[0]]))
    assert_same_distribution(output_distribution(run), expected)


@pytest.mark.parametrize("comparison", [lambda u: u < math.nan, lambda u: u > math.nan])
def test_nan_is_on_neither_side(comparison: Callable[[Any], Any]) -> None:
    with torch_draws_from(Seeded(0)):
        assert not comparison(torch.rand(1)) and not comparison(random.random())


# --------------------------------------------------------------- what is not followed


@pytest.mark.parametrize(
    "use, named",
    [
        (lambda u: torch.rand(1, generator=torch.Generator()), "generator object"),
        (lambda u: u.clone().uniform_(generator=torch.Generator()), "generator object"),
        (lambda u: ONES.multinomial(1, generator=torch.Generator()), "generator obj"),
        (lambda u: torch.multinomial(ONES, 1, out=torch.zeros(1).long()), "'out'"),
        (lambda u: random.uniform(a=0, b=1), "other arguments .*'a'"),
        (lambda u: torch.add(u, 1, alpha=2), "`add` .* with `alpha`"),
        (lambda u: torch.div(u, 1, rounding_mode="floor"), "with `rounding_mode`"),
        (lambda u: u.log(), "log"),
        (lambda u: (u - u.log()).argmax(), "log"),
        (lambda u: u.mul_(2), "mul_"),
        (lambda u: u == 0, "eq"),
        (lambda u: bool(u[0]), "bool"),
        (lambda u: u.half(), "half"),
        (lambda u: u.to(torch.bfloat16), "bfloat16"),
        (lambda u: torch.cat([u, torch.zeros(1)]), "cat"),
        (lambda u: torch.zeros(3).copy_(u), "copy_"),
        (lambda u: u < torch.rand(3), "two random numbers"),
        (lambda u: u[0].item() * random.random(), "two random numbers"),
        (lambda u: random.random() == 0.5, "equals"),
        (lambda u: math.log(random.random()), "the value of"),
        (lambda u: np.log(random.random()), "log"),
        (lambda u: np.sqrt(np.random.rand(2)), "sqrt"),
        (lambda u: random.random().numpy(), "numpy"),
        (lambda u: random.random().real, "real"),
        (lambda u: random.random() ** 2, "pow"),
        (lambda u: 2 ** random.random(), "rpow"),
        (lambda u: int(random.random() * 3), "int"),
        (lambda u: random.random() * 3 // 1, "floordiv"),
        (lambda u: random.random() % 0.5, "mod"),
        (lambda u: divmod(1, random.random()), "rdivmod"),
        (lambda u: 1 / random.random(), "rtruediv"),
        (lambda u: abs(random.random() - 0.5), "abs"),
        (lambda u: round(random.random()), "round"),
        (lambda u: math.floor(random.random() * 3), "floor"),
        (lambda u: hash(random.random()), "hash"),
        (lambda u: 1 if random.random() else 0, "bool"),
        (lambda u: f"{random.random():.2f}", "format"),
        (lambda u: "ab"[random.random()], "index"),
        (lambda u: copy.deepcopy(random.random()), "reduce_ex"),
        (lambda u: torch.tensor(random.random()), "tensor"),
        (lambda u: torch.tensor([0.5, random.random()]), "tensor"),
        (lambda u: torch.tensor(u), "tensor"),  # it would copy places, not numbers
        (lambda u: torch.tensor([u[0], 0.5]), "tensor"),
        (lambda u: u.new_tensor(u), "new_tensor"),
        (lambda u: ONES.new_tensor(u[1:]), "new_tensor"),
        (lambda u: torch.as_tensor(u, dtype=torch.float64), "as_tensor"),
        (lambda u: torch.from_numpy(np.random.rand(2)), "from_numpy"),
        (lambda u: torch.tensor(ONES.clone().exponential_()), "tensor"),
        (lambda u: torch.full((2,), random.random()), "full"),
        (lambda u: ONES.clone().__setitem__(0, random.random()), "setitem"),
        (lambda u: ONES.clone().__setitem__(0, u[0]), "setitem"),
        (lambda u: torch.rand(2, dtype=torch.float16), "float16"),
        (lambda u: torch.zeros(3)[1:].uniform_(), "part of a tensor"),
        (lambda u: torch.zeros(3)[1:].exponential_(), "part of a tensor"),
        (lambda u: torch.multinomial(torch.ones(3), 2), "2 tokens"),
        (lambda u: ONES.clone().exponential_().log(), "log"),
        (lambda u: ONES.clone().exponential_() / ONES, "div"),
        (lambda u: torch.ones(2, 3) / ONES.clone().exponential_(), "share"),
        (lambda u: [ONES / e for e in [ONES.clone().exponential_()] * 2], "share"),
    ],
)
def test_what_cannot_be_enumerated_is_named(
    use: Callable[[Any], Any], named: str
) -> None:
    with torch_draws_from(Seeded(0)):
        with pytest.raises(NotEnumerable, match=f"{named}.*by statistics"):
            use(torch.rand(3))


@pytest.mark.parametrize("row", [[0.0, 0.0], [math.nan, 1.0], [-1.0, 2.0]])
def test_a_row_that_torch_rejects_is_rejected(row: list[float]) -> None:
    with torch_draws_from(Seeded(0)):
        with pytest.raises(RuntimeError, match="no mass"):
            torch.multinomial(torch.tensor(row), 1)
        with pytest.raises(RuntimeError, match="not in"):
            torch.tensor([*row, 1.5]).bernoulli()


def test_everything_is_put_back_and_no_generator_moves() -> None:
    def doors() -> list[Any]:
        all_doors = [*DOORS.items(), *WITH_FLOAT.items()]
        named = [getattr(o, name) for o, names in all_doors for name in names]
        return [builtins.float, *named]

    kept, states = doors(), global_states()
    with pytest.raises(ZeroDivisionError):
        with torch_draws_from(Seeded(0)):
            assert not any(now is then for now, then in zip(doors(), kept))
            assert isinstance(float("1"), float) and np.zeros(2, float).dtype == "f8"
            assert issubclass(np.float64, float) and not issubclass(int, float)
            wide = torch.zeros(2, dtype=float), ONES.to(float), ONES.sum(dtype=float)
            assert {one.dtype for one in wide} == {torch.float64}
            for accept in ACCEPT.values():
                accept(TARGET[0, 0], DRAFT[0, 0])
            for draw in DRAW.values():
                draw(TARGET[0])
            raise ZeroDivisionError
    assert doors() == kept and global_states() == states
    assert not {"uniform_", "sum"} & vars(Tensor).keys()


def test_a_choice_without_weights_is_even() -> None:
    def run(chance: Randomness) -> list[int]:
        with torch_draws_from(chance):
            return [np.random.choice(2), np.random.choice([5, 6], None, True, [0, 1])]

    assert output_distribution(run) == {(0, 6): 0.5, (1, 6): 0.5}

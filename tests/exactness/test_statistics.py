"""The G test: its statistic, its false alarms, its power."""

from __future__ import annotations

import random
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from minispec.exactness import Distribution, statistics
from minispec.exactness.foreign import global_states

from support.oracles import g_limit, g_statistic
from support.strategies import SEEDS

FAIR = {(0,): 0.25, (1,): 0.25, (2,): 0.25, (3,): 0.25}
LOADED = {(0,): 0.28, (1,): 0.24, (2,): 0.24, (3,): 0.24}


@given(counts=st.lists(st.integers(0, 90), min_size=2, max_size=6).filter(any))
def test_g_is_the_oracles(counts: list[int]) -> None:
    n = len(counts)
    seen = Counter({(i,): count for i, count in enumerate(counts)})
    found = statistics.g_test(seen, {(i,): 1 / n for i in range(n)})
    if sum(counts) >= 5 * n:
        expected = g_statistic(counts, [1 / n] * n)
        assert found.statistic == pytest.approx(expected, abs=1e-9)
        assert found.degrees == n - 1
    else:
        assert found.degrees == 0 and found.p_value == 1


@given(common=st.integers(1, 4), rare=st.integers(2, 30), seed=SEEDS)
def test_rare_outcomes_are_counted_as_one(common: int, rare: int, seed: int) -> None:
    """As if there were a single outcome in their place."""
    n, share = 100, 0.03  # 3 draws expected for each outcome that is rare, or fewer
    expected = {(i,): (1 - share) / common for i in range(common)}
    merged = expected | {(-1,): share}
    expected |= {(-i,): share / rare for i in range(1, rare + 1)}
    draws = random.Random(seed).choices(list(expected), [*expected.values()], k=n)
    found = statistics.g_test(Counter(draws), expected)
    one = statistics.g_test(Counter(max(key, (-1,)) for key in draws), merged)
    assert found.degrees == common
    assert found.statistic == pytest.approx(one.statistic, abs=1e-9)


@pytest.mark.parametrize(
    "degrees, statistic, tail", [(1, 3.841, 0.05), (3, 16.27, 0.001), (50, 67.50, 0.05)]
)
def test_tails_are_those_in_the_tables(
    degrees: int, statistic: float, tail: float
) -> None:
    found = statistics.chi_square_tail(statistic, degrees)
    assert found == pytest.approx(tail, rel=2e-3)
    limit = statistics.critical_value(degrees, tail)
    assert limit == pytest.approx(statistic, rel=1e-3)


def test_the_oracles_limit_is_the_one_in_a_million_point() -> None:
    assert 0.5e-6 < statistics.chi_square_tail(g_limit([0.1] * 10), 9) < 2e-6


def test_an_impossible_outcome_settles_it() -> None:
    test = statistics.g_test
    assert test(Counter({(0,): 999, (9,): 1}), {(0,): 1.0}).p_value == 0
    assert test(Counter({(0,): 999}), {(0,): 1.0}).p_value == 1
    with pytest.raises(ValueError, match="no counts"):
        test(Counter(), FAIR)


def share_of_alarms(drawn_from: Distribution, n: int, level: float) -> float:
    """The share of 400 tests, each of `n` draws, that deny they are fair."""
    row = torch.tensor(list(drawn_from.values()), dtype=torch.float64)
    draws = torch.multinomial(
        row.expand(400, 4), n, True, generator=torch.Generator().manual_seed(n)
    )
    p_values = [
        statistics.g_test(Counter((i,) for i in line), FAIR).p_value
        for line in draws.tolist()
    ]
    return sum(p_value < level for p_value in p_values) / 400


def test_false_alarms_and_power_are_as_stated() -> None:
    assert share_of_alarms(FAIR, 300, 0.05) == pytest.approx(0.05, abs=0.04)
    stated = statistics.power(FAIR, LOADED, 600, 0.05)
    assert 0.2 < stated < 0.8
    assert share_of_alarms(LOADED, 600, 0.05) == pytest.approx(stated, abs=0.08)


@pytest.mark.parametrize("level", [0.05, 1e-4])
def test_the_power_against_the_same_is_the_false_alarm_rate(level: float) -> None:
    found = statistics.power(FAIR, FAIR, 1000, level)
    assert found == pytest.approx(level, rel=1e-6)


def test_the_draws_needed_are_enough_and_hardly_more() -> None:
    n = statistics.draws_needed(FAIR, LOADED, false_alarm=1e-4, wanted=0.99)
    assert statistics.power(FAIR, LOADED, n, 1e-4) >= 0.99
    assert statistics.power(FAIR, LOADED, int(n / 1.15), 1e-4) < 0.99
    with pytest.raises(ValueError, match="all but the same"):
        statistics.draws_needed(FAIR, FAIR, at_most=1000)


def test_what_is_forbidden_is_found_when_it_is_first_drawn() -> None:
    """At one draw in a thousand: 1 - 0.999**n, and nothing else shows."""
    expected, other = {(0,): 1.0}, {(0,): 0.999, (1,): 0.001}
    found = statistics.power(expected, other, 500, 1e-4)
    assert found == pytest.approx(1 - 0.999**500, rel=1e-3)


@pytest.mark.parametrize(
    "sampler",
    [
        lambda: torch.multinomial(torch.ones(4), 1),
        lambda: [random.randrange(4)],
        lambda: [np.random.randint(4)],
    ],
)
def test_draws_repeat_and_leave_the_generators_alone(sampler: object) -> None:
    states = global_states()
    counts = statistics.draw(sampler, 1000, seed=1)  # type: ignore[arg-type]
    assert counts == statistics.draw(sampler, 1000, seed=1)  # type: ignore[arg-type]
    assert counts != statistics.draw(sampler, 1000, seed=2)  # type: ignore[arg-type]
    assert states == global_states()
    assert sum(counts.values()) == 1000
    assert statistics.g_test(counts, FAIR).p_value > 1e-4


@pytest.mark.parametrize("rate", [-1, 0, 1, 2, float("nan")])
def test_a_rate_that_is_none_is_an_error(rate: float) -> None:
    """A false alarm below 0 would be looked for for ever."""
    for ask in (
        lambda: statistics.critical_value(3, rate),
        lambda: statistics.power(FAIR, LOADED, 9, rate),
        lambda: statistics.draws_needed(FAIR, LOADED, rate),
        lambda: statistics.draws_needed(FAIR, LOADED, wanted=rate),
    ):
        with pytest.raises(ValueError, match="must be between 0 and 1, got "):
            ask()
    for half in ({(0,): 0.5}, {(0,): float("nan")}):
        with pytest.raises(ValueError, match="must sum to 1, got "):
            statistics.g_test(Counter({(0,): 9}), half)
    with pytest.raises(ValueError, match="0 or more, got -1"):
        statistics.critical_value(-1, 0.5)
    with pytest.raises(ValueError, match="at least 1 draw, got 0"):
        statistics.power(FAIR, LOADED, 0, 0.5)

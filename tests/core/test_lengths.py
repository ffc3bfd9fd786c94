"""Lengths that adapt: each policy's arithmetic, and that it follows the text.

That they leave the output distribution alone is proved in test_distributions.py.
"""

from __future__ import annotations

import random

import pytest

from minispec.core.analysis import best_gamma, expected_tokens
from minispec.core.lengths import (
    N_RECENT,
    accepted_history,
    best_length,
    constant,
    recent_alpha,
)
from minispec.core.rounds import Length, Round


def a_round(K: int, n_accepted: int) -> Round:
    tokens = tuple(range(K))
    return Round(tokens, n_accepted, (*tokens[:n_accepted], 99), None)


def cost(gamma: int) -> float:
    return 1 + 0.04 * gamma


def test_a_constant_is_constant() -> None:
    assert [constant(3)([]), constant(0)([a_round(3, 0)])] == [3, 0]


def test_two_more_after_full_acceptance_and_one_less_otherwise() -> None:
    length = accepted_history(first=2, longest=6)
    past: list[Round] = []
    asked = []
    for accepted in (2, 4, 6, 0, 4, 0, 0, 0, 0, 0, 1):
        asked.append(length(past))
        past.append(a_round(asked[-1], min(accepted, asked[-1])))
    assert asked == [2, 4, 6, 6, 5, 4, 3, 2, 1, 1, 1] and length(past) == 3
    assert length([a_round(3, 3)]) == 5  # the drafter gave fewer than it was asked for
    assert length([a_round(0, 0)]) == 2


def test_alpha_is_accepted_by_judged_with_a_prior_and_fades() -> None:
    """Round by round: 0.7 of 2; 3 of 4; then 0 of 1, and the older by 0.9."""
    assert recent_alpha([]) == pytest.approx(0.7)
    past = [a_round(9, 3)]  # the five drafts after the rejected one were never judged
    assert recent_alpha(past) == pytest.approx((1.4 + 3) / (2 + 4))
    past.append(a_round(4, 0))
    assert recent_alpha(past) == pytest.approx((1.4 + 0.9 * 3) / (2 + 1 + 0.9 * 4))
    hopeless = [a_round(4, 0)] * 200
    assert recent_alpha(hopeless) < 0.15 < 0.69 < recent_alpha(hopeless + RESTED)


RESTED = [a_round(0, 0)] * N_RECENT


def test_only_the_last_rounds_are_looked_at() -> None:
    class Counted(list[Round]):
        looked_at = 0

        def __getitem__(self, index):  # type: ignore
            found = super().__getitem__(index)
            Counted.looked_at += len(found) if isinstance(index, slice) else 1
            return found

    recent_alpha(Counted([a_round(4, 2)] * 5000))
    assert Counted.looked_at == N_RECENT


def test_the_best_length_is_the_best_gamma_for_that_alpha() -> None:
    length = best_length(0.06, cost)
    assert length([]) == best_gamma(0.7, 0.06, cost)
    assert length([a_round(9, 9)] * 50) > 10 > 3 > length([a_round(2, 0)] * 50)
    assert best_length(0.9)([a_round(1, 0)] * 50) == 0  # nothing pays,
    assert best_length(0.5)([a_round(1, 0)] * 50 + RESTED) > 0  # and later it may


def speed(length: Length, alphas: list[float], n: int, seed: int = 0) -> float:
    """Tokens per step of the target in a text whose acceptance changes half-way."""
    dice, past, n_tokens, spent = random.Random(seed), list[Round](), 0, 0.0
    while n_tokens < n:
        K = length(past)
        alpha = alphas[n_tokens * len(alphas) // n]
        n_accepted = next((i for i in range(K) if dice.random() >= alpha), K)
        past.append(a_round(K, n_accepted))
        n_tokens += n_accepted + 1
        spent += 0.06 * K + (cost(K) if K else 1.0)
    return n_tokens / spent


@pytest.mark.parametrize("alphas", [[0.8], [0.5], [0.95], [0.95, 0.3], [0.2, 0.9]])
def test_the_best_length_is_as_fast_as_the_best_constant(alphas: list[float]) -> None:
    """Within 5 %, at every acceptance; where it changes, faster than any constant."""
    fastest = max(speed(constant(gamma), alphas, 20_000) for gamma in range(17))
    found = speed(best_length(0.06, cost), alphas, 20_000)
    assert found > 0.95 * fastest
    if len(alphas) > 1:
        assert found > 1.02 * fastest
    else:
        predicted = [
            expected_tokens(alphas[0], gamma) / (0.06 * gamma + cost(gamma))
            for gamma in range(17)
        ]
        assert fastest == pytest.approx(max(predicted), rel=0.03)


@pytest.mark.parametrize(
    "make", [lambda: constant(-1), lambda: accepted_history(0), lambda: best_length(-1)]
)
def test_numbers_that_cannot_be_right_are_errors(make: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        make()  # type: ignore[operator]

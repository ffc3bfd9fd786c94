"""The analysis: identities, enumeration and brute force, and the published numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from minispec.core import analysis
from minispec.core.analysis import best_gamma, expected_speedup, expected_tokens

from support.checks import agree, value_error
from support.strategies import row_pairs

ALPHAS, GAMMAS = st.floats(0, 1), st.integers(0, 8)
RATIOS, COSTS = st.floats(0, 2), st.floats(0.5, 3)
exercise = pytest.mark.exercise12


def tokens_by_enumeration(alpha: float, gamma: int) -> float:
    """Every pattern of gamma coin flips: its chance times the tokens it makes."""
    mean = 0.0
    for flips in product([True, False], repeat=gamma):
        chance = math.prod(alpha if kept else 1 - alpha for kept in flips)
        mean += chance * ((*flips, False).index(False) + 1)
    return mean


# ------------------------------------------------------------------ tokens per round


@exercise
@pytest.mark.parametrize(
    "alpha, gamma, mean",
    [(0.5, 1, 1.5), (0.5, 2, 1.75), (0.8, 4, 3.3616), (0.0, 3, 1.0), (0.7, 0, 1.0)],
)
def test_a_round_makes_the_accepted_drafts_and_one_token_more(
    alpha: float, gamma: int, mean: float
) -> None:
    """1 + alpha + ... + alpha^gamma: the 1 is the token that the target adds."""
    broke = "Another mean number of tokens per round."
    agree(expected_tokens(alpha, gamma), mean, broke, alpha=alpha, gamma=gamma)


@exercise
@given(ALPHAS, GAMMAS)
def test_expected_tokens_is_the_mean_over_all_outcomes(
    alpha: float, gamma: int
) -> None:
    """Each pattern of kept and rejected drafts, weighted with its chance."""
    expected = tokens_by_enumeration(alpha, gamma)
    broke = "Not the mean over all patterns of kept and rejected drafts."
    found = expected_tokens(alpha, gamma)
    agree(found, expected, broke, 1e-12, alpha=alpha, gamma=gamma)


@exercise
@pytest.mark.parametrize("alpha", [1.0, 1 - 1e-16, 1 - 1e-13])
@pytest.mark.parametrize("gamma", [0, 1, 8])
def test_drafts_that_are_all_kept_make_gamma_and_one(alpha: float, gamma: int) -> None:
    """The closed form is 0 / 0 there, or nearly so."""
    broke = "Every draft is kept, for certain or nearly so: not gamma + 1."
    found = expected_tokens(alpha, gamma)
    agree(found, float(gamma + 1), broke, 1e-11, alpha=alpha, gamma=gamma)


@given(rows=row_pairs())
def test_overlap_is_the_expected_acceptance(rows: tuple[Tensor, Tensor]) -> None:
    """Each token in turn, kept with min(1, target / draft); 1 - total variation."""
    target, draft = rows
    kept = [d * min(1.0, t / d) for t, d in zip(*(row.tolist() for row in rows)) if d]
    found = analysis.overlap(target[None], draft[None])[0].item()
    assert found == pytest.approx(sum(kept), abs=1e-12)
    variation = (target - draft).abs().sum().item() / 2
    assert found == pytest.approx(1 - variation, abs=1e-12)


# -------------------------------------------------------------------------- speed-up


@given(ALPHAS, GAMMAS, RATIOS, COSTS)
def test_speedup_is_time_saved(
    alpha: float, gamma: int, ratio: float, cost: float
) -> None:
    """1,000 rounds against the target making the same tokens one by one; measured
    rounds and expected ones share the formula."""
    tokens = tokens_by_enumeration(alpha, gamma)
    seconds = 1000 * gamma * ratio + 1000 * cost  # one target step = 1 second
    found = expected_speedup(alpha, gamma, ratio, cost)
    assert found == pytest.approx(1000 * tokens / seconds)
    assert found == pytest.approx(analysis.round_speedup(tokens, gamma, ratio, cost))


@exercise
@pytest.mark.parametrize(
    "alpha, ratio, gamma, speedup",
    [(0.8, 0.05, 8, 3.09), (0.8, 0.1, 6, 2.47), (0.5, 0.5, 0, 1)],
)
def test_known_optima(alpha: float, ratio: float, gamma: int, speedup: float) -> None:
    """Of all draft lengths the one of the highest expected speed-up, of equals the
    smallest. 0 means not to speculate: a speed-up of 1."""
    what = {"alpha": alpha, "cost_ratio": ratio}
    agree(best_gamma(alpha, ratio), gamma, "Another gamma is the best.", **what)
    found = expected_speedup(alpha, gamma, ratio)
    agree(found, float(speedup), "Its speed-up is another.", 0.005, gamma=gamma, **what)


@exercise
@given(ALPHAS, st.floats(0, 0.5), st.lists(COSTS, min_size=1, max_size=8))
def test_best_gamma_is_the_best_of_all_and_the_smallest(
    alpha: float, ratio: float, costs: list[float]
) -> None:
    """Also where verify_cost rises in steps: there is more than one hill."""
    longest = len(costs)

    def cost(gamma: int) -> float:
        broke = "verify_cost is asked about a gamma above `longest`."
        agree(gamma <= longest, True, broke, gamma=gamma, longest=longest)
        return [1.0, *costs][gamma]

    def speedup(gamma: int) -> float:
        tokens = tokens_by_enumeration(alpha, gamma)
        return tokens / (gamma * ratio + cost(gamma))

    best = best_gamma(alpha, ratio, cost, longest)
    broke = "The best gamma is from 0 to longest."
    agree(best in range(longest + 1), True, broke, best=best, longest=longest)
    speedups = [speedup(gamma) for gamma in range(longest + 1)]
    broke = "Another gamma has a higher speed-up (0 means not to speculate: 1.0)."
    what = {"alpha": alpha, "cost_ratio": ratio, "costs from gamma 1 on": costs}
    good = [n for n, one in enumerate(speedups) if one >= max(speedups) - 1e-9]
    got = good[0] if best in good else best
    agree(got, good[0], broke, speedups=speedups, **what)


@exercise
@pytest.mark.parametrize("longest", [0, 1, 7, 64, 100])
def test_the_best_of_equals_is_the_smallest_and_the_longest_is_allowed(
    longest: int
) -> None:
    """A draft that is free and always right: the longer the better. One that is always
    wrong and free: all are equal."""
    what: Any = {"cost_ratio": 0, "longest": longest}
    best = best_gamma(1.0, 0.0, longest=longest)
    agree(best, longest, "Every draft is free and accepted.", alpha=1, **what)
    best = best_gamma(0.0, 0.0, longest=longest)
    agree(best, 0, "Every draft is free and rejected.", alpha=0, **what)


@given(gamma=st.integers(1, 12), ratio=RATIOS, cost=COSTS)
def test_break_even_is_the_root(gamma: int, ratio: float, cost: float) -> None:
    root = analysis.break_even_alpha(gamma, ratio, cost)
    if root is None:
        assert gamma + 1 < gamma * ratio + cost  # all kept would still be a loss
    elif root < 1e-9:
        assert cost + gamma * ratio <= 1 + 1e-6  # nothing kept is no loss
    else:
        assert expected_speedup(root, gamma, ratio, cost) == pytest.approx(1)


# --------------------------------------------------------------- memory-bound model


def test_seventy_billion_in_half_precision() -> None:
    seconds = analysis.seconds_per_token(70e9, 2, 3.35e12)
    assert seconds == pytest.approx(0.042, rel=0.01)


@given(st.floats(1e6, 1e12), st.floats(0.5, 8), st.floats(1e9, 1e13), st.floats(1, 1e4))
def test_arithmetic_catches_up_with_reading_where_the_model_says(
    n_parameters: float, width: float, bandwidth: float, flops_per_byte: float
) -> None:
    flops = bandwidth * flops_per_byte
    n = analysis.tokens_while_flat(width, bandwidth, flops)
    reading = analysis.seconds_per_token(n_parameters, width, bandwidth)
    assert 2 * n_parameters * n / flops == pytest.approx(reading)


@exercise
@pytest.mark.parametrize(
    "function, arguments",
    [
        (expected_tokens, {"alpha": 1.5, "gamma": 1}),
        (expected_tokens, {"alpha": -0.1, "gamma": 1}),
        (expected_tokens, {"alpha": math.nan, "gamma": 1}),
        (expected_tokens, {"alpha": 0.5, "gamma": -1}),
        (best_gamma, {"alpha": 2, "cost_ratio": 0.1, "longest": 0}),
        (best_gamma, {"alpha": -1, "cost_ratio": 0.1, "longest": 0}),
        (best_gamma, {"alpha": 0.5, "cost_ratio": -0.1}),
        (best_gamma, {"alpha": 0.5, "cost_ratio": -0.1, "longest": 0}),
        (best_gamma, {"alpha": 0.5, "cost_ratio": 0.1, "longest": -1}),
    ],
)
def test_what_is_out_of_range_is_a_value_error(
    function: Callable[..., object], arguments: dict[str, Any]
) -> None:
    with value_error(**arguments):
        function(**arguments)


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: expected_tokens(1.5, 1), "alpha"),
        (lambda: expected_tokens(math.nan, 1), "alpha"),
        (lambda: expected_tokens(0.5, -1), "gamma"),
        (lambda: expected_speedup(0.5, 1, -0.1), "cost_ratio"),
        (lambda: expected_speedup(0.5, 1, 0.1, 0), "verify_cost"),
        (lambda: analysis.round_speedup(-1, 1, 0.1), "tokens"),
        (lambda: best_gamma(2, 0.1, longest=0), "alpha"),
        (lambda: analysis.break_even_alpha(0, 0.1), "gamma"),
        (lambda: analysis.seconds_per_token(0, 2, 1), "n_parameters"),
        (lambda: analysis.tokens_while_flat(2, 1, 0), "flops_per_second"),
    ],
)
def test_errors_name_what_is_wrong(call: Callable[[], object], name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} must be .*, got "):
        call()


# ----------------------------------------------------------------------------- batches


@given(ALPHAS, GAMMAS, RATIOS, st.integers(1, 64))
def test_a_batch_gains_as_one_text_does_where_rows_are_free(
    alpha: float, gamma: int, ratio: float, n: int
) -> None:
    gain = analysis.batch_speedup(alpha, gamma, n, lambda rows: 1.0, lambda rows: ratio)
    assert gain == pytest.approx(expected_speedup(alpha, gamma, ratio))


@given(ALPHAS, GAMMAS, st.integers(1, 64))
def test_where_rows_are_paid_for_every_rejected_draft_is_a_loss(
    alpha: float, gamma: int, n: int
) -> None:
    """A pass over n (gamma + 1) rows then costs gamma + 1 steps, for fewer tokens."""
    gain = analysis.batch_speedup(alpha, gamma, n, float, lambda rows: 0.0)
    assert gain == pytest.approx(expected_tokens(alpha, gamma) / (gamma + 1))


def test_the_roofline_is_flat_and_then_proportional() -> None:
    assert [analysis.roofline_cost(n, 8.0) for n in (1, 8, 12)] == [1.0, 1.0, 1.5]

"""The analysis: identities, enumeration and brute force, and the published numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from types import ModuleType

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from minispec import analysis

from strategies import row_pairs

ALPHAS = st.floats(0, 1)
GAMMAS = st.integers(0, 8)
RATIOS = st.floats(0, 2)
COSTS = st.floats(0.5, 3)
# (alpha, cost ratio) -> best gamma, speed-up; found by exhaustive search elsewhere
KNOWN = [(0.8, 0.05, 8, 3.09), (0.8, 0.1, 6, 2.47), (0.8, 0.2, 4, 1.87)]


def tokens_by_enumeration(alpha: float, gamma: int) -> float:
    """Every pattern of gamma coin flips: its chance times the tokens it makes."""
    mean = 0.0
    for flips in product([True, False], repeat=gamma):
        chance = math.prod(alpha if kept else 1 - alpha for kept in flips)
        leading = (flips + (False,)).index(False)
        mean += chance * (leading + 1)
    return mean


def acceptance_by_enumeration(target_row: Tensor, draft_row: Tensor) -> float:
    """Draw each token in turn; keep it with min(1, target / draft)."""
    kept = 0.0
    for wanted, given_ in zip(target_row.tolist(), draft_row.tolist()):
        if given_ > 0:
            kept += given_ * min(1.0, wanted / given_)
    return kept


# ------------------------------------------------------------------ tokens per round


@pytest.mark.exercise12
@given(alpha=ALPHAS, gamma=GAMMAS)
def test_expected_tokens_is_the_mean_over_all_outcomes(
    impl: ModuleType, alpha: float, gamma: int
) -> None:
    expected = tokens_by_enumeration(alpha, gamma)
    assert impl.analysis.expected_tokens(alpha, gamma) == pytest.approx(expected)


@pytest.mark.exercise12
@given(alpha=st.floats(0, 0.99), gamma=st.integers(0, 60))
def test_expected_tokens_is_the_closed_form(
    impl: ModuleType, alpha: float, gamma: int
) -> None:
    closed = (1 - alpha ** (gamma + 1)) / (1 - alpha)
    found = impl.analysis.expected_tokens(alpha, gamma)
    assert found == pytest.approx(closed, rel=1e-12)


@pytest.mark.exercise12
@given(gamma=st.integers(0, 60), gap=st.sampled_from([0.0, 1e-16, 1e-13, 1e-10]))
def test_expected_tokens_is_exact_at_and_near_certain_acceptance(
    impl: ModuleType, gamma: int, gap: float
) -> None:
    # To first order in the gap: gamma + 1 - gap * (0 + 1 + ... + gamma).
    expected = gamma + 1 - gap * gamma * (gamma + 1) / 2
    found = impl.analysis.expected_tokens(1 - gap, gamma)
    assert found == pytest.approx(expected, rel=1e-14)


@pytest.mark.exercise12
@given(low=ALPHAS, high=ALPHAS, gamma=st.integers(1, 20))
def test_expected_tokens_grows_with_alpha_and_gamma(
    impl: ModuleType, low: float, high: float, gamma: int
) -> None:
    low, high = sorted([low, high])
    expected_tokens = impl.analysis.expected_tokens
    assert expected_tokens(low, gamma) <= expected_tokens(high, gamma)
    assert expected_tokens(low, gamma - 1) <= expected_tokens(low, gamma)
    assert 1 <= expected_tokens(low, gamma) <= gamma + 1


@given(rows=row_pairs())
def test_overlap_is_the_expected_acceptance(rows: tuple[Tensor, Tensor]) -> None:
    target_row, draft_row = rows
    total_variation = (target_row - draft_row).abs().sum().item() / 2
    found = analysis.overlap(target_row, draft_row).item()
    assert found == pytest.approx(acceptance_by_enumeration(*rows), abs=1e-12)
    assert found == pytest.approx(1 - total_variation, abs=1e-12)


def test_overlap_works_row_by_row() -> None:
    target, draft = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(1))
    each = [analysis.overlap(t, d) for t, d in zip(target, draft)]
    assert torch.equal(analysis.overlap(target, draft), torch.stack(each))


# -------------------------------------------------------------------------- speed-up


@given(alpha=ALPHAS, gamma=GAMMAS, ratio=RATIOS, cost=COSTS)
def test_speedup_is_time_saved(
    alpha: float, gamma: int, ratio: float, cost: float
) -> None:
    """1,000 rounds against the target making the same tokens one by one."""
    tokens = 1000 * tokens_by_enumeration(alpha, gamma)
    seconds = 1000 * gamma * ratio + 1000 * cost  # one target step = 1 second
    found = analysis.expected_speedup(alpha, gamma, ratio, cost)
    assert found == pytest.approx(tokens / seconds)


@given(alpha=ALPHAS, gamma=GAMMAS, ratio=RATIOS, cost=COSTS)
def test_expected_and_measured_rounds_share_one_formula(
    alpha: float, gamma: int, ratio: float, cost: float
) -> None:
    tokens = tokens_by_enumeration(alpha, gamma)
    measured = analysis.round_speedup(tokens, gamma, ratio, cost)
    assert analysis.expected_speedup(alpha, gamma, ratio, cost) == pytest.approx(
        measured
    )


@pytest.mark.exercise12
@given(
    alpha=ALPHAS,
    ratio=RATIOS,
    longest=st.integers(0, 12),
    base=COSTS,
    slope=st.floats(0, 0.5),
)
def test_best_gamma_is_the_best_of_all(
    impl: ModuleType,
    alpha: float,
    ratio: float,
    longest: int,
    base: float,
    slope: float,
) -> None:
    """No gamma is faster by more than rounding, and no smaller one is as fast."""

    def verify_cost(gamma: int) -> float:
        return base + slope * gamma

    def speedup(gamma: int) -> float:
        if gamma == 0:
            return 1.0
        tokens = tokens_by_enumeration(alpha, gamma)
        return tokens / (gamma * ratio + verify_cost(gamma))

    best = impl.analysis.best_gamma(alpha, ratio, verify_cost, longest)
    assert 0 <= best <= longest
    assert all(speedup(best) >= speedup(g) - 1e-9 for g in range(longest + 1))
    assert all(speedup(best) > speedup(g) - 1e-9 for g in range(best))


@pytest.mark.exercise12
@given(
    alpha=ALPHAS, ratio=st.floats(0, 0.2), costs=st.lists(COSTS, min_size=1, max_size=8)
)
def test_best_gamma_looks_behind_a_dear_one(
    impl: ModuleType, alpha: float, ratio: float, costs: list[float]
) -> None:
    """Costs as measured may rise in steps, so the speed-up has more than one hill."""

    def speedup(gamma: int) -> float:
        return tokens_by_enumeration(alpha, gamma) / (gamma * ratio + costs[gamma - 1])

    longest = len(costs)
    best = impl.analysis.best_gamma(alpha, ratio, lambda g: costs[g - 1], longest)
    found = speedup(best) if best else 1.0
    assert found == pytest.approx(max([1.0, *map(speedup, range(1, longest + 1))]))


@pytest.mark.exercise12
@pytest.mark.parametrize("alpha, ratio, gamma, speedup", KNOWN)
def test_known_optima(
    impl: ModuleType, alpha: float, ratio: float, gamma: int, speedup: float
) -> None:
    assert impl.analysis.best_gamma(alpha, ratio) == gamma
    found = analysis.expected_speedup(alpha, gamma, ratio)
    assert found == pytest.approx(speedup, abs=0.005)


@pytest.mark.exercise12
@given(alpha=ALPHAS, ratio=st.floats(0, 1))
def test_speculation_helps_exactly_where_alpha_exceeds_the_cost_ratio(
    impl: ModuleType, alpha: float, ratio: float
) -> None:
    if abs(alpha - ratio) > 1e-12:  # closer than that, rounding decides
        assert (impl.analysis.best_gamma(alpha, ratio) > 0) == (alpha > ratio)


@pytest.mark.exercise12
@pytest.mark.parametrize("ratio", [0.1, 0.3, 0.5, 1.0])
def test_no_gain_is_no_speculation(impl: ModuleType, ratio: float) -> None:
    assert impl.analysis.best_gamma(ratio, ratio) == 0
    assert impl.analysis.best_gamma(0.0, ratio) == 0
    assert impl.analysis.best_gamma(0.9, 0.0, verify_cost=lambda gamma: 99.0) == 0


@given(gamma=st.integers(1, 12), ratio=RATIOS, cost=COSTS)
def test_break_even_is_the_root(gamma: int, ratio: float, cost: float) -> None:
    root = analysis.break_even_alpha(gamma, ratio, cost)
    if root is None:
        assert gamma + 1 < gamma * ratio + cost  # all kept would still be a loss
    elif root < 1e-9:
        assert cost + gamma * ratio <= 1 + 1e-6  # nothing kept is no loss
    else:
        found = analysis.expected_speedup(root, gamma, ratio, cost)
        assert found == pytest.approx(1)


@given(gamma=st.integers(2, 12), ratio=st.floats(0, 1))
def test_one_draft_breaks_even_first_and_at_the_cost_ratio(
    gamma: int, ratio: float
) -> None:
    one, more = (analysis.break_even_alpha(g, ratio) for g in (1, gamma))
    assert one == pytest.approx(ratio)
    assert more is not None and one is not None and one <= more + 1e-9


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
    arithmetic = 2 * n_parameters * n / flops
    reading = analysis.seconds_per_token(n_parameters, width, bandwidth)
    assert arithmetic == pytest.approx(reading)


# --------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: analysis.expected_tokens(1.5, 1), "alpha"),
        (lambda: analysis.expected_tokens(-0.1, 1), "alpha"),
        (lambda: analysis.expected_tokens(math.nan, 1), "alpha"),
        (lambda: analysis.expected_tokens(0.5, -1), "gamma"),
        (lambda: analysis.expected_speedup(0.5, 1, -0.1), "cost_ratio"),
        (lambda: analysis.expected_speedup(0.5, 1, math.inf), "cost_ratio"),
        (lambda: analysis.expected_speedup(0.5, 1, 0.1, 0), "verify_cost"),
        (lambda: analysis.round_speedup(-1, 1, 0.1), "tokens"),
        (lambda: analysis.round_speedup(1, -1, 0.1), "drafted"),
        (lambda: analysis.best_gamma(2, 0.1, longest=0), "alpha"),
        (lambda: analysis.best_gamma(0.5, 0.1, longest=-1), "longest"),
        (lambda: analysis.break_even_alpha(0, 0.1), "gamma"),
        (lambda: analysis.seconds_per_token(0, 2, 1), "n_parameters"),
        (lambda: analysis.seconds_per_token(1, 0, 1), "bytes_per_parameter"),
        (lambda: analysis.seconds_per_token(1, 2, 0), "bytes_per_second"),
        (lambda: analysis.tokens_while_flat(2, 1, 0), "flops_per_second"),
    ],
)
def test_errors_name_what_is_wrong(call: Callable[[], object], name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} must be .*, got "):
        call()

"""The kit: laws compared, rejection alone, torch's generator, and what G can tell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

from minispec.randomness import Randomness, Seeded
from minispec.rejection import Verdict, reject

from oracles import NaiveLaw, g_limit, g_statistic
from strategies import SEEDS, probability_rows

TARGET = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]], dtype=torch.float64)
DRAFT = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)


def product(rows: list[list[float]]) -> NaiveLaw:
    """One token from each row, by the plainest loop."""
    law: NaiveLaw = {(): 1.0}
    for row in rows:
        law = {(*k, i): v * p for k, v in law.items() for i, p in enumerate(row) if p}
    return law


# ---------------------------------------------------------------------- comparison


def test_the_same_law_passes_and_what_is_off_is_named(impl: Any) -> None:
    right = {(0, 1): 0.5, (1, 1): 0.25, (2,): 0.25}
    wrong = {(0, 1): 0.4, (1, 1): 0.25, (2,): 0.2, (3, 3): 0.15}
    impl.exactness.assert_same_law(right, dict(right))
    impl.exactness.assert_same_law(wrong, right, tolerance=0.1500001)
    with pytest.raises(AssertionError) as error:
        impl.exactness.assert_same_law(wrong, right, tolerance=1e-3)
    first, header, *lines = str(error.value).splitlines()
    assert "up to 0.15 (tolerance 0.001)" in first and "of 4 sequences" in first
    assert [line.split()[:2] for line in lines[:2]] == [["3", "3"], ["0", "1"]]
    assert lines[0].endswith("too often") and lines[1].endswith("too rarely")


@given(p=st.floats(0, 0.5), gap=st.floats(1e-6, 0.4))
def test_the_tolerance_is_what_it_says(impl: Any, p: float, gap: float) -> None:
    law, other = {(0,): p, (1,): 1 - p}, {(0,): p + gap, (1,): 1 - p - gap}
    impl.exactness.assert_same_law(law, other, tolerance=gap * 1.001)
    with pytest.raises(AssertionError):
        impl.exactness.assert_same_law(law, other, tolerance=gap * 0.999)


def test_a_law_that_is_not_a_number_is_no_law(impl: Any) -> None:
    with pytest.raises(AssertionError):
        impl.exactness.assert_same_law({(0,): math.nan}, {(0,): 1.0})


@pytest.mark.parametrize("n", [1, 3, 6])
def test_branches_are_counted(impl: Any, n: int) -> None:
    row = torch.tensor([0.25, 0.0, 0.75], dtype=torch.float64)
    found = impl.exactness.enumerate_law(lambda chance: [chance.sample(row)] * n)
    assert found.n_branches == 2 and len(found.law) == 2
    found = impl.exactness.enumerate_law(
        lambda chance: [sum(chance.sample(row) for _ in range(n))]
    )
    assert found.n_branches == 2**n and len(found.law) == n + 1


def test_a_run_that_keeps_state_is_found_out(impl: Any) -> None:
    widths = iter([3, 1])

    def run(chance: Randomness) -> list[int]:
        n = next(widths)
        return [chance.sample(torch.full((n,), 1 / n, dtype=torch.float64))]

    with pytest.raises(ValueError, match="keep no state from run to run"):
        impl.exactness.output_law(run)


def test_a_float32_row_is_refused_rather_than_called_exact(impl: Any) -> None:
    row = torch.tensor([0.1, 0.2, 0.7])  # sums to 1 + 1e-8 or so
    with pytest.raises(ValueError, match="in float64"):
        impl.exactness.output_law(lambda chance: [chance.sample(row)])


# ------------------------------------------------------------------ rejection alone


@pytest.mark.parametrize("V, K", [(2, 0), (3, 1), (2, 2)])
@given(data=st.data())
def test_the_reference_is_lossless_at_any_rows(
    impl: Any, V: int, K: int, data: Any
) -> None:
    rows = [data.draw(probability_rows(V)) for _ in range(2 * K + 1)]
    target = torch.stack(rows[: K + 1])
    draft = torch.stack(rows[K + 1 :]) if K else torch.empty(0, V)
    kit = impl.exactness.rejection
    law = kit.law_of_rejection(impl.rejection.reject, target, draft)
    impl.exactness.assert_same_law(law, product(target.tolist()))
    impl.exactness.assert_same_law(kit.law_of_rows(target), product(target.tolist()))


def wrong_sampler(
    tokens: Tensor, draft: Tensor, target: Tensor, chance: Randomness, mistake: str
) -> Verdict:
    """One draft, and one mistake."""
    token = int(tokens[0])
    t, d = target[0, token], draft[0, token]
    ratio = d / t if mistake == "ratio upside down" else t / d
    kept = chance.leading_accepts(ratio[None])
    excess = (target[0] - draft[0]).clamp(min=0)
    rest = target[0] if mistake == "target as residual" else excess / excess.sum()
    bonus = target[0] if mistake == "bonus from row 0" else target[1]
    return Verdict(kept, chance.sample(bonus if kept else rest))


def test_the_sampler_of_the_mistakes_is_right_without_one(impl: Any) -> None:
    sampler = partial(wrong_sampler, mistake="none")
    law = impl.exactness.rejection.law_of_rejection(sampler, TARGET, DRAFT)
    impl.exactness.assert_same_law(law, product(TARGET.tolist()))


@pytest.mark.parametrize(
    "mistake", ["ratio upside down", "target as residual", "bonus from row 0"]
)
def test_one_wrong_line_is_found(impl: Any, mistake: str) -> None:
    sampler = partial(wrong_sampler, mistake=mistake)
    law = impl.exactness.rejection.law_of_rejection(sampler, TARGET, DRAFT)
    with pytest.raises(AssertionError, match="too often"):
        impl.exactness.assert_same_law(law, product(TARGET.tolist()), 1e-3)


def test_drafts_from_other_rows_than_declared_are_found(impl: Any) -> None:
    """An argmax, declared as a draw, gives (2/5, 3/5, 0)."""
    best = torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64)
    law_of = impl.exactness.rejection.law_of_rejection
    law = law_of(reject, TARGET, DRAFT, drawn_from=best)
    wrong = product([[0.4, 0.6, 0.0], TARGET[1].tolist()])
    impl.exactness.assert_same_law(law, wrong)
    law = law_of(reject, TARGET, best, drawn_from=best)
    impl.exactness.assert_same_law(law, product(TARGET.tolist()))


def test_rows_that_do_not_fit_are_refused(impl: Any) -> None:
    law_of = impl.exactness.rejection.law_of_rejection
    with pytest.raises(ValueError, match=r"need target_rows of shape \[2, 3\], got"):
        law_of(reject, TARGET[:1], DRAFT)
    with pytest.raises(impl.exactness.TooManyBranches, match="more than 3 "):
        law_of(reject, TARGET, DRAFT, max_branches=3)


def test_a_sampler_cannot_move_what_it_is_compared_with(impl: Any) -> None:
    """One that writes the draft over the target keeps every draft, and is wrong."""

    def cheat(tokens: Tensor, draft: Tensor, target: Tensor, chance: Any) -> Verdict:
        target[:-1] = draft
        return reject(tokens, draft, target, chance)

    target = TARGET.clone()
    law = impl.exactness.rejection.law_of_rejection(cheat, target, DRAFT.clone())
    assert torch.equal(target, TARGET)
    with pytest.raises(AssertionError, match="the laws differ"):
        impl.exactness.assert_same_law(law, product(TARGET.tolist()))


@pytest.mark.parametrize(
    "judged, error",
    [
        (None, TypeError),
        ((1, 2), TypeError),
        (Verdict(0, 1.7), TypeError),  # type: ignore[arg-type]
        (Verdict(0.0, 1), TypeError),  # type: ignore[arg-type]
        (Verdict(2, 0), ValueError),
        (Verdict(-1, 0), ValueError),
    ],
)
def test_what_is_no_judgement_is_named(impl: Any, judged: Any, error: Any) -> None:
    law_of = impl.exactness.rejection.law_of_rejection
    with pytest.raises(error, match="n_accepted"):
        law_of(lambda *_: judged, TARGET, DRAFT)


def test_a_sampler_that_draws_for_ever_is_stopped(impl: Any) -> None:
    def run(chance: Randomness) -> list[int]:
        for _ in range(20_000):  # for ever, to whoever waits
            chance.sample(TARGET[0])
        return []

    with pytest.raises(impl.exactness.TooManyBranches, match="decisions in one run"):
        impl.exactness.output_law(run)


def test_a_token_is_the_same_as_a_tensor_and_as_a_number(impl: Any) -> None:
    law = impl.exactness.output_law(
        lambda chance: torch.tensor([chance.sample(TARGET[0])])
    )
    impl.exactness.assert_same_law(law, product(TARGET[:1].tolist()))


# ---------------------------------------------------------------- torch's generator


def in_torch(strict: bool, dtype: torch.dtype, impl: Any) -> Callable[..., Verdict]:
    """Algorithm 1 as it is usually written, over torch's generator."""

    def sampler(
        tokens: Tensor, draft: Tensor, target: Tensor, chance: Randomness
    ) -> Verdict:
        with impl.exactness.rejection.torch_draws_from(chance):
            at = tokens[:, None]
            ratio = target[:-1].gather(1, at)[:, 0] / draft.gather(1, at)[:, 0]
            ratio = ratio.to(dtype)
            u = torch.rand_like(ratio)
            kept = u < ratio if strict else u <= ratio
            n = int(kept.long().cumprod(0).sum())
            row = target[n]
            if n < len(tokens):
                row = (target[n] - draft[n]).clamp(min=0)
            return Verdict(n, int(torch.multinomial(row, num_samples=1)))

    return sampler


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("V, K", [(3, 1), (2, 2)])
@given(seed=SEEDS)
def test_torchs_generator_is_enumerated(
    impl: Any, strict: bool, V: int, K: int, seed: int
) -> None:
    """In float64 the grid of uniforms is too fine to see: 2**-53."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.rand(2 * K + 1, V, generator=generator, dtype=torch.float64)
    rows = rows / rows.sum(-1, keepdim=True)
    target, draft = rows[: K + 1], rows[K + 1 :]
    law_of = impl.exactness.rejection.law_of_rejection
    law = law_of(in_torch(strict, torch.float64, impl), target, draft)
    impl.exactness.assert_same_law(law, product(target.tolist()))


@pytest.mark.parametrize("strict, chance", [(True, 0.0), (False, 2.0**-24)])
def test_a_uniform_of_exactly_0_is_seen(
    impl: Any, strict: bool, chance: float
) -> None:
    """`<=` accepts a token the target forbids once in 2**24 float32 draws."""
    target = torch.tensor([[0.0, 1.0], [0.5, 0.5]], dtype=torch.float64)
    draft = torch.tensor([[0.5, 0.5]], dtype=torch.float64)
    sampler = in_torch(strict, torch.float32, impl)
    law = impl.exactness.rejection.law_of_rejection(sampler, target, draft)
    forbidden = sum(prob for key, prob in law.items() if key[0] == 0)
    assert forbidden == 0.5 * chance


@given(threshold=st.floats(-0.5, 1.5) | st.sampled_from([0.0, 1.0, 2.0**-24, 1e-9]))
@pytest.mark.parametrize("dtype, bits", [(torch.float32, 24), (torch.float64, 53)])
def test_a_comparison_has_the_chance_of_the_grid(
    impl: Any, dtype: torch.dtype, bits: int, threshold: float
) -> None:
    """Of the multiples of 2**-bits in [0, 1): how many lie below the threshold."""
    exact = torch.tensor(threshold, dtype=dtype).double().item() * 2**bits
    below = {"<": math.ceil(exact), "<=": math.floor(exact) + 1}

    def run(sign: str, turned: bool, chance: Randomness) -> list[int]:
        with impl.exactness.rejection.torch_draws_from(chance):
            u = torch.rand(1, dtype=dtype)
            t = torch.tensor([threshold], dtype=dtype)
            if sign == "<":
                return [int(t > u if turned else u < t)]
            return [int(t >= u if turned else u <= t)]

    for sign, count in below.items():
        for turned in (False, True):
            law = impl.exactness.output_law(partial(run, sign, turned))
            expected = min(max(count, 0), 2**bits) / 2**bits
            assert law.get((1,), 0.0) == expected


def test_torch_is_put_back_and_its_generator_left_alone(impl: Any) -> None:
    kept = torch.rand, torch.rand_like, torch.multinomial
    state = torch.get_rng_state()
    with pytest.raises(ZeroDivisionError):
        with impl.exactness.rejection.torch_draws_from(Seeded(0)):
            assert torch.rand is not kept[0]
            torch.multinomial(torch.tensor([0.5, 0.5]), 1)
            torch.rand(3) < 0.5
            raise ZeroDivisionError
    assert (torch.rand, torch.rand_like, torch.multinomial) == kept
    assert torch.equal(torch.get_rng_state(), state)


def test_what_cannot_be_enumerated_says_so(impl: Any) -> None:
    with impl.exactness.rejection.torch_draws_from(Seeded(0)):
        with pytest.raises(AttributeError, match="can only be compared.*statistics"):
            torch.rand(3).log()
        with pytest.raises(TypeError, match="bfloat16.*float32 or float64"):
            torch.rand_like(torch.zeros(2, dtype=torch.bfloat16))
        with pytest.raises(ValueError, match="not of 2"):
            torch.multinomial(torch.ones(3), 2)
        for row in ([0.0, 0.0], [math.nan, 1.0], [-1.0, 2.0]):
            with pytest.raises(RuntimeError, match="no mass"):
                torch.multinomial(torch.tensor(row), 1)


# ------------------------------------------------------------------------ statistics

FAIR = {(0,): 0.25, (1,): 0.25, (2,): 0.25, (3,): 0.25}
LOADED = {(0,): 0.28, (1,): 0.24, (2,): 0.24, (3,): 0.24}


@given(counts=st.lists(st.integers(0, 90), min_size=2, max_size=6))
def test_g_is_the_oracles(impl: Any, counts: list[int]) -> None:
    if not sum(counts):
        counts = [*counts, 30]
    n = len(counts)
    law = {(i,): 1 / n for i in range(n)}
    total = sum(counts)
    found = impl.exactness.statistics.g_test(
        Counter({(i,): count for i, count in enumerate(counts)}), law
    )
    if total >= 5 * n:
        expected = g_statistic(counts, [1 / n] * n)
        assert found.statistic == pytest.approx(expected, abs=1e-9)
        assert found.degrees == n - 1
    else:
        assert found.degrees == 0 and found.p_value == 1


@given(common=st.integers(1, 4), rare=st.integers(2, 30), seed=SEEDS)
def test_rare_outcomes_are_counted_as_one(
    impl: Any, common: int, rare: int, seed: int
) -> None:
    """As if the law had a single outcome in their place."""
    n, share = 100, 0.03  # 3 draws expected for each outcome that is rare, or fewer
    law = {(i,): (1 - share) / common for i in range(common)}
    law |= {(-i,): share / rare for i in range(1, rare + 1)}
    row = torch.tensor([*law.values()], dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.multinomial(row, n, True, generator=generator).tolist()
    counts = Counter(list(law)[i] for i in drawn)
    lumped = Counter(key if key[0] >= 0 else (-1,) for key in counts.elements())
    merged = {key: p for key, p in law.items() if key[0] >= 0} | {(-1,): share}
    found = impl.exactness.statistics.g_test(counts, law)
    assert found.degrees == common
    expected = impl.exactness.statistics.g_test(lumped, merged)
    assert found.statistic == pytest.approx(expected.statistic, abs=1e-9)


@pytest.mark.parametrize("degrees, statistic", [(1, 3.841), (3, 16.27), (50, 67.50)])
def test_tails_are_those_in_the_tables(
    impl: Any, degrees: int, statistic: float
) -> None:
    tail = impl.exactness.statistics.chi_square_tail(statistic, degrees)
    wanted = {1: 0.05, 3: 0.001, 50: 0.05}[degrees]
    assert tail == pytest.approx(wanted, rel=2e-3)
    found = impl.exactness.statistics.critical_value(degrees, wanted)
    assert found == pytest.approx(statistic, rel=1e-3)


def test_the_oracles_limit_is_the_one_in_a_million_point(impl: Any) -> None:
    limit = g_limit([0.1] * 10)
    tail = impl.exactness.statistics.chi_square_tail(limit, 9)
    assert 0.5e-6 < tail < 2e-6


def test_an_impossible_outcome_settles_it(impl: Any) -> None:
    test = impl.exactness.statistics.g_test
    assert test(Counter({(0,): 999, (9,): 1}), {(0,): 1.0}).p_value == 0
    assert test(Counter({(0,): 999}), {(0,): 1.0}).p_value == 1
    with pytest.raises(ValueError, match="no counts"):
        test(Counter(), FAIR)


def share_of_alarms(impl: Any, law: NaiveLaw, n: int, level: float) -> float:
    """The share of 400 tests, each of `n` draws from `law`, that deny it is fair."""
    row = torch.tensor(list(law.values()), dtype=torch.float64)
    draws = torch.multinomial(
        row.expand(400, 4), n, True, generator=torch.Generator().manual_seed(n)
    )
    tests = [
        impl.exactness.statistics.g_test(Counter((i,) for i in line), FAIR)
        for line in draws.tolist()
    ]
    return sum(test.p_value < level for test in tests) / len(tests)


def test_false_alarms_and_power_are_as_stated(impl: Any) -> None:
    statistics = impl.exactness.statistics
    assert share_of_alarms(impl, FAIR, 300, 0.05) == pytest.approx(0.05, abs=0.04)
    stated = statistics.power(FAIR, LOADED, 600, 0.05)
    assert 0.2 < stated < 0.8
    assert share_of_alarms(impl, LOADED, 600, 0.05) == pytest.approx(stated, abs=0.08)


def test_the_power_against_the_law_itself_is_the_false_alarm_rate(impl: Any) -> None:
    power = impl.exactness.statistics.power
    for level in (0.05, 1e-4):
        assert power(FAIR, FAIR, 1000, level) == pytest.approx(level, rel=1e-6)


def test_the_draws_needed_are_enough_and_hardly_more(impl: Any) -> None:
    statistics = impl.exactness.statistics
    n = statistics.draws_needed(FAIR, LOADED, false_alarm=1e-4, wanted=0.99)
    assert statistics.power(FAIR, LOADED, n, 1e-4) >= 0.99
    assert statistics.power(FAIR, LOADED, int(n / 1.15), 1e-4) < 0.99
    with pytest.raises(ValueError, match="all but the same"):
        statistics.draws_needed(FAIR, FAIR, at_most=1000)


def test_what_is_forbidden_is_found_when_it_is_first_drawn(impl: Any) -> None:
    """At one draw in a thousand: 1 - 0.999**n, and nothing else shows."""
    law, other = {(0,): 1.0}, {(0,): 0.999, (1,): 0.001}
    power = impl.exactness.statistics.power(law, other, 500, 1e-4)
    assert power == pytest.approx(1 - 0.999**500, rel=1e-3)


def test_drawing_from_torch_repeats_and_leaves_its_generator_alone(impl: Any) -> None:
    row, state = torch.tensor([0.25] * 4), torch.get_rng_state()
    draw = partial(
        impl.exactness.statistics.draw, lambda: torch.multinomial(row, 1), 2000
    )
    counts = draw(seed=1)
    assert counts == draw(seed=1) != draw(seed=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert sum(counts.values()) == 2000
    assert impl.exactness.statistics.g_test(counts, FAIR).p_value > 1e-4

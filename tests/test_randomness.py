"""The one door of chance: right frequencies, one stream per seed, nothing shared."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import product
from types import ModuleType
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from oracles import g_limit, g_statistic, naive_accept_law
from strategies import SEEDS, probability_rows

LAST = 1 - 2**-53  # the largest uniform there is
UNIFORMS = st.sampled_from([0.0, 5e-324, 2**-53, 0.5, LAST]) | st.floats(0, LAST)
RATIOS = st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]) | st.floats(0, 2), max_size=5)
FLAT = torch.full((1000,), 1e-3)
HALVES = torch.tensor([0.5, 0.5])


class Scripted:
    """Stands in for the generator: the given uniforms, in order."""

    def __init__(self, uniforms: Sequence[float]) -> None:
        self.uniforms: Iterator[float] = iter(uniforms)

    def random(self) -> float:
        return next(self.uniforms)


def scripted(impl: ModuleType, uniforms: Sequence[float]) -> Any:
    randomness = impl.randomness.Seeded(0)
    randomness._generator = Scripted(uniforms)
    return randomness


def stream(randomness: Any, n: int = 20) -> list[int]:
    """Both kinds of decision, in turn."""
    drawn = []
    for _ in range(n):
        drawn.append(randomness.sample(FLAT))
        drawn.append(randomness.leading_accepts(torch.full((6,), 0.8)))
    return drawn


# ------------------------------------------------------------------ drawing one token


@given(row=probability_rows(6), u=UNIFORMS, zeros=st.integers(0, 3))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_token_without_probability_never_comes_out(
    impl: ModuleType, dtype: torch.dtype, row: Tensor, u: float, zeros: int
) -> None:
    """Whatever the uniform, zeros before and behind the others included."""
    padded = torch.cat([torch.zeros(zeros), row, torch.zeros(zeros)]).to(dtype)
    token = scripted(impl, [u]).sample(padded)
    assert padded[token] > 0


@given(row=probability_rows(6))
def test_not_even_at_the_very_edge_between_two_tokens(
    impl: ModuleType, row: Tensor
) -> None:
    for edge in row.cumsum(0).tolist():
        for u in (np.nextafter(edge, 0), edge, np.nextafter(edge, 1)):
            if 0 <= u < 1:
                assert row[scripted(impl, [float(u)]).sample(row)] > 0


@pytest.mark.parametrize("smallest", [1e-45, 1e-40, 1e-30])
def test_tiny_masses_come_out_only_where_they_lie(
    impl: ModuleType, smallest: float
) -> None:
    tiny = torch.tensor([0.0, smallest, 0.0, 1.0, 0.0, smallest, 0.0])
    assert scripted(impl, [0.0]).sample(tiny) == 1
    assert scripted(impl, [0.5]).sample(tiny) == 3
    assert tiny[scripted(impl, [LAST]).sample(tiny)] > 0


@given(row=probability_rows(5))
def test_each_token_gets_its_share_of_the_uniforms(
    impl: ModuleType, row: Tensor
) -> None:
    """Over an even grid of n uniforms the counts are n * probability, within one."""
    n = 500
    randomness = scripted(impl, [(i + 0.5) / n for i in range(n)])
    drawn = torch.tensor([randomness.sample(row) for _ in range(n)])
    counts = torch.bincount(drawn, minlength=5)
    assert (counts - n * row).abs().max() <= 1 + 1e-9


@pytest.mark.parametrize("power", range(1, 51))
def test_an_edge_between_two_tokens_lies_where_their_masses_say(
    impl: ModuleType, power: int
) -> None:
    """To the precision of float64: a coarse uniform never draws a small mass."""
    edge = 2.0**-power
    row = torch.tensor([edge, 1 - edge], dtype=torch.float64)
    for u, token in ((edge * (1 - 1e-9), 0), (edge, 1), (edge * (1 + 1e-9), 1)):
        assert scripted(impl, [u]).sample(row) == token


def test_float32_rows_that_do_not_quite_sum_to_1_never_run_off_the_end(
    impl: ModuleType,
) -> None:
    for V in (7, 1000, 50_257):
        row = torch.rand(V, generator=torch.Generator().manual_seed(V))
        row /= row.sum()
        for scale in (1 - 1e-6, 1.0, 1 + 1e-6):
            assert scripted(impl, [LAST]).sample(scale * row) == V - 1


@pytest.mark.parametrize(
    "probs", [[0.5, 0.5], [0.1, 0.2, 0.3, 0.4], [0.9, 0.0, 0.05, 0.03, 0.02, 0.0]]
)
def test_tokens_come_out_as_often_as_they_should(
    impl: ModuleType, probs: list[float]
) -> None:
    randomness, counts = impl.randomness.Seeded(7), [0] * len(probs)
    row = torch.tensor(probs)
    for _ in range(10_000):
        counts[randomness.sample(row)] += 1
    assert g_statistic(counts, probs) < g_limit(probs)


def test_successive_draws_are_independent(impl: ModuleType) -> None:
    """A token, an acceptance and a token: all eight outcomes equally often."""
    randomness = impl.randomness.Seeded(8)
    counts = dict.fromkeys(product(range(2), repeat=3), 0)
    half = torch.tensor([0.5])
    for _ in range(8_000):
        first = randomness.sample(HALVES)
        accepted = randomness.leading_accepts(half)
        counts[first, accepted, randomness.sample(HALVES)] += 1
    even = [1 / 8] * 8
    assert g_statistic(list(counts.values()), even) < g_limit(even)


# --------------------------------------------------------------------- leading accepts


@pytest.mark.exercise7
@given(ratios=RATIOS, data=st.data())
def test_accepts_are_counted_up_to_the_first_refusal(
    impl: ModuleType, ratios: list[float], data: st.DataObject
) -> None:
    """One uniform each, strictly below its ratio; what follows a refusal is unread."""
    n = len(ratios)
    uniforms = data.draw(st.lists(UNIFORMS, min_size=n, max_size=n))
    row = torch.tensor(ratios, dtype=torch.float64)
    count = scripted(impl, uniforms).leading_accepts(row)
    passed = [u < ratio for u, ratio in zip(uniforms, ratios)]
    assert count == [*passed, False].index(False)


@given(ratios=RATIOS, data=st.data())
def test_no_chance_is_spent_on_what_follows_a_refusal(
    impl: ModuleType, ratios: list[float], data: st.DataObject
) -> None:
    """One uniform for each draft that is looked at, so that a decode can be replayed
    draw by draw."""
    n = len(ratios)
    uniforms = data.draw(st.lists(UNIFORMS, min_size=n, max_size=n))
    randomness = scripted(impl, uniforms)
    row = torch.tensor(ratios, dtype=torch.float64)
    count = randomness.leading_accepts(row)
    assert list(randomness._generator.uniforms) == uniforms[count + 1 :]


@pytest.mark.exercise7
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(before=st.integers(0, 3))
def test_a_ratio_of_0_never_passes_and_one_of_1_always_does(
    impl: ModuleType, dtype: torch.dtype, before: int
) -> None:
    sure = [1.0, 2.5, float("inf")][:before]
    ratios = torch.tensor([*sure, 0.0, 1.0], dtype=dtype)
    for u in (0.0, LAST):
        assert scripted(impl, [u] * 9).leading_accepts(ratios) == len(sure)
        assert scripted(impl, [u] * 9).leading_accepts(ratios[: len(sure)]) == len(sure)


@pytest.mark.exercise7
def test_nothing_drafted_is_nothing_accepted(impl: ModuleType) -> None:
    assert impl.randomness.Seeded(0).leading_accepts(torch.empty(0)) == 0


@pytest.mark.exercise7
def test_the_smallest_ratio_is_more_than_0(impl: ModuleType) -> None:
    assert scripted(impl, [0.0]).leading_accepts(torch.tensor([1e-45])) == 1


@pytest.mark.exercise7
@pytest.mark.parametrize("ratios", [[0.5] * 4, [0.9, 1.7, 0.2, 0.6], [0.7, 0.0, 1.0]])
def test_counts_have_the_law_of_independent_acceptances(
    impl: ModuleType, ratios: list[float]
) -> None:
    """One uniform shared by all K would accept far too many together."""
    randomness, counts = impl.randomness.Seeded(9), [0] * (len(ratios) + 1)
    row = torch.tensor(ratios)
    for _ in range(10_000):
        counts[randomness.leading_accepts(row)] += 1
    probs = list(naive_accept_law(row.tolist()).values())
    assert g_statistic(counts, probs) < g_limit(probs)


# -------------------------------------------------------------------------- the seeds


@given(seed=SEEDS)
def test_the_same_seed_gives_the_same_decisions(impl: ModuleType, seed: int) -> None:
    Seeded = impl.randomness.Seeded
    assert stream(Seeded(seed)) == stream(Seeded(seed))


@given(seeds=st.sets(SEEDS, min_size=2, max_size=4))
def test_different_seeds_give_different_decisions(
    impl: ModuleType, seeds: set[int]
) -> None:
    streams = {tuple(stream(impl.randomness.Seeded(seed))) for seed in seeds}
    assert len(streams) == len(seeds)


def test_without_a_seed_no_two_are_alike(impl: ModuleType) -> None:
    assert stream(impl.randomness.Seeded()) != stream(impl.randomness.Seeded())


@given(seed=SEEDS, turns=st.lists(st.booleans(), min_size=5, max_size=30))
def test_two_sources_side_by_side_do_not_mix(
    impl: ModuleType, seed: int, turns: list[bool]
) -> None:
    """Interleaved, each decides as it does alone."""
    Seeded = impl.randomness.Seeded
    together = {False: Seeded(seed), True: Seeded(seed + 1)}
    mixed: dict[bool, list[int]] = {False: [], True: []}
    for turn in turns:
        mixed[turn].append(together[turn].sample(FLAT))
    for turn, drawn in mixed.items():
        alone = Seeded(seed + turn)
        assert drawn == [alone.sample(FLAT) for _ in drawn]


def test_no_global_generator_is_read_or_moved(impl: ModuleType) -> None:
    def states() -> list[str]:
        both = [random.getstate(), np.random.get_state()]
        return [repr(state) for state in both] + [str(torch.get_rng_state().tolist())]

    before = states()
    first = stream(impl.randomness.Seeded(3))
    stream(impl.randomness.Seeded())
    assert states() == before, "a global generator was moved"
    random.random(), np.random.random(), torch.rand(1)
    assert stream(impl.randomness.Seeded(3)) == first, "a global generator was read"


@pytest.mark.parametrize("row", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_a_row_that_is_no_distribution_is_refused(impl: Any, row: list[float]) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        impl.randomness.Seeded(0).sample(torch.tensor(row))

"""The one door of chance: right frequencies, one stream per seed, nothing shared."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from minispec import Seeded

from support.checks import agree
from support.oracles import g_limit, g_statistic
from support.strategies import SEEDS, probability_rows

LAST = 1 - 2**-53  # the largest uniform there is
UNIFORMS = st.sampled_from([0.0, 5e-324, 2**-53, 0.5, LAST]) | st.floats(0, LAST)
FLAT = torch.full((1000,), 1e-3)
HALVES = torch.tensor([0.5, 0.5])


class Uniforms(random.Random):
    """Stands in for the generator: the given uniforms, in order."""

    def __init__(self, uniforms: Sequence[float]) -> None:
        super().__init__(0)
        self.uniforms = list(uniforms)

    def random(self) -> float:
        assert self.uniforms, "A decision drew more than one uniform."
        return self.uniforms.pop(0)


def scripted(*uniforms: float) -> Seeded:
    source = Seeded(0)
    source._generator = Uniforms(uniforms)
    return source


def stream(source: Seeded, n: int = 20) -> list[int]:
    """Both kinds of decision, in turn."""
    return [source.sample(FLAT) if i % 2 else source.accept(0.5) for i in range(2 * n)]


# --------------------------------------------------------------------- accepting one


@pytest.mark.exercise7
@given(u=UNIFORMS, chance=UNIFORMS | st.sampled_from([1.0, 2.5, float("inf")]))
def test_accepted_if_one_uniform_is_strictly_below_the_chance(
    u: float, chance: float
) -> None:
    broke = "A draft is accepted exactly if u < chance; u comes from [0, 1)."
    source = scripted(u)
    agree(source.accept(chance), u < chance, broke, u=u, chance=chance)
    broke = "Every decision takes one uniform, also one that is certain."
    agree(1 - len(source._generator.uniforms), 1, broke, chance=chance)


@pytest.mark.exercise7
def test_a_chance_of_0_never_passes_and_one_of_1_always_does() -> None:
    for u in (0.0, LAST):
        agree(scripted(u).accept(0.0), False, "A chance of 0 passed.", u=u)
        agree(scripted(u).accept(1.0), True, "A chance of 1 did not pass.", u=u)
    agree(scripted(0.0).accept(5e-324), True, "A tiny chance is more than 0.", u=0.0)


# ------------------------------------------------------------------ drawing one token


@given(row=probability_rows(6), u=UNIFORMS, zeros=st.integers(0, 3))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_token_without_probability_is_never_drawn(
    dtype: torch.dtype, row: Tensor, u: float, zeros: int
) -> None:
    """Whatever the uniform: also at and beside every edge between two tokens."""
    padded = torch.cat([torch.zeros(zeros), row, torch.zeros(zeros)]).to(dtype)
    edges = row.cumsum(0).tolist()
    beside = [math.nextafter(edge, side) for edge in edges for side in (0, 1)]
    for point in [u, *edges, *beside]:
        if 0 <= point < 1:
            assert padded[scripted(point).sample(padded)] > 0


@given(row=probability_rows(5))
def test_each_token_gets_its_share_of_the_uniforms(row: Tensor) -> None:
    """Over an even grid of n uniforms the counts are n * probability, within one."""
    n = 500
    drawn = torch.tensor([scripted((i + 0.5) / n).sample(row) for i in range(n)])
    counts = torch.bincount(drawn, minlength=5)
    assert (counts - n * row).abs().max() <= 1 + 1e-9


@pytest.mark.parametrize("power", range(1, 51))
def test_an_edge_between_two_tokens_lies_where_their_masses_say(power: int) -> None:
    """To the precision of float64: a coarse uniform never draws a small mass."""
    edge = 2.0**-power
    row = torch.tensor([edge, 1 - edge], dtype=torch.float64)
    for u, token in ((edge * (1 - 1e-9), 0), (edge, 1), (edge * (1 + 1e-9), 1)):
        assert scripted(u).sample(row) == token


@pytest.mark.parametrize("V", [7, 1000, 50_257])
def test_float32_rows_that_do_not_quite_sum_to_1_have_a_last_token(V: int) -> None:
    row = torch.rand(V, generator=torch.Generator().manual_seed(V))
    for scale in (1 - 1e-6, 1.0, 1 + 1e-6):
        assert scripted(LAST).sample(scale * row / row.sum()) == V - 1


@pytest.mark.exercise7
def test_successive_decisions_are_independent() -> None:
    """A token, two acceptances and a token: all 16 outcomes equally often."""
    source = Seeded(8)
    counts = dict.fromkeys(product(range(2), repeat=4), 0)
    for _ in range(8_000):
        first, accepted = source.sample(HALVES), [source.accept(0.5) for _ in range(2)]
        counts[first, *accepted, source.sample(HALVES)] += 1
    even = [1 / 16] * 16
    assert g_statistic(list(counts.values()), even) < g_limit(even)


@pytest.mark.parametrize("row", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_a_row_without_a_distribution_is_an_error(row: list[float]) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        Seeded(0).sample(torch.tensor(row))


# -------------------------------------------------------------------------- the seeds


@given(seeds=st.sets(SEEDS | st.integers(0, 3), min_size=2, max_size=4))
def test_a_seed_decides_everything(seeds: set[int]) -> None:
    streams = {tuple(stream(Seeded(seed))) for seed in seeds}
    assert len(streams) == len(seeds)
    assert streams == {tuple(stream(Seeded(seed))) for seed in seeds}


def test_without_a_seed_no_two_are_alike() -> None:
    assert stream(Seeded()) != stream(Seeded())


@pytest.mark.parametrize("seed", [np.int64(3), np.uint8(3), torch.tensor(3)])
def test_whole_numbers_of_other_packages_are_seeds(seed: Any) -> None:
    assert stream(Seeded(seed)) == stream(Seeded(3))


def test_what_cannot_be_a_seed_is_an_error() -> None:
    with pytest.raises(ValueError, match="a seed must be at least 0, got -3"):
        Seeded(-3)
    for seed in (1.5, "1", np.float64(1)):
        with pytest.raises(TypeError, match="a seed must be a whole number, got "):
            Seeded(seed)  # type: ignore[arg-type]


def test_no_global_generator_is_read_or_moved() -> None:
    def states() -> list[str]:
        both = [random.getstate(), np.random.get_state()]
        return [repr(state) for state in both] + [str(torch.get_rng_state().tolist())]

    before = states()
    first = stream(Seeded(3))
    stream(Seeded())
    assert states() == before, "a global generator was moved"
    random.random(), np.random.random(), torch.rand(1)
    assert stream(Seeded(3)) == first, "a global generator was read"

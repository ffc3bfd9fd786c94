"""Coupled draws: one text for each seed, and over the seeds the target's distribution.

False alarms: each G test is passed by a right sampler but for 1 run in 10,000. Seeds
are fixed, so what passes once passes always.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from itertools import product

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from minispec import Drafter, ModelDrafter, NgramDrafter, Request, Sampling
from minispec import Seeded, generate, generate_alone
from minispec.core.analysis import overlap
from minispec.core.coupling import (
    coupled,
    coupled_overlap,
    coupled_overlap_bound,
    gumbel,
    gumbel_noise,
    noise_beside,
    perturbed_choice,
    uniforms,
)
from minispec.exactness import output_distribution
from minispec.exactness.statistics import draws_needed, g_test
from minispec.judges import EXACT, LOSSY

from support.checks import agree
from support.decoding import Stateless, tiny
from support.strategies import SEEDS, probability_rows, row_pairs

FALSE_ALARM = 1e-4
V = 3
TARGET, DRAFT = tiny(V, 0), tiny(V, 100)
PROMPT, N_NEW = torch.tensor([0, 1]), 4
N_DRAWN = 8_000
exercise = pytest.mark.exercise19


def chain(seed: int | None) -> Sampling:
    return Sampling(0.8, top_k=2, noise_seed=seed, eos_ids=(2,))


# ------------------------------------------------------------------------ the parts

UNIFORMS = st.floats(1e-6, 1 - 1e-6)


@exercise
@given(st.lists(UNIFORMS, min_size=1, max_size=4))
def test_gumbel_noise_is_two_logarithms_of_a_uniform(u: list[float]) -> None:
    """Its distribution function exp(-exp(-g)) is u at g."""
    for given_u in (torch.tensor(u).double(), torch.tensor(u).double()[:, None]):
        g, broke = gumbel(given_u), "exp(-exp(-g)) is not u."
        agree((-(-g).exp()).exp(), given_u, broke, u=given_u, g=g)


@exercise
@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 4), st.integers(1, 5))
def test_row_i_has_the_noise_of_position_n_plus_i(
    seed: int, n: int, R: int, V: int
) -> None:
    """Whatever the rows are, and however many: one position, one noise."""
    rows = torch.rand(R, V, generator=torch.Generator().manual_seed(n))
    expected = torch.stack([gumbel_noise(seed, n + i, V) for i in range(R)])
    broke = "Row i is not the noise of position n + i."
    agree(noise_beside(rows, seed, n), expected, broke, seed=seed, n=n, shape=[R, V])


@exercise
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(data=st.data(), seed=SEEDS)
def test_the_token_of_the_highest_log_p_plus_noise_is_chosen(
    dtype: torch.dtype, data: st.DataObject, seed: int
) -> None:
    """One-hot rows in the type of the probabilities; they stay as they are."""
    V, R = data.draw(st.integers(2, 5), "V"), data.draw(st.integers(1, 3), "R")
    rows = [data.draw(probability_rows(V)) for _ in range(R)]
    probs = torch.stack(rows).to(dtype)
    noise = torch.rand(R, V, generator=torch.Generator().manual_seed(seed)).double()
    copies, expected = (probs.clone(), noise.clone()), torch.zeros(R, V)
    for i in range(R):
        p, g = probs[i].tolist(), noise[i].tolist()
        scores = [math.log(q) + h if q > 0 else -math.inf for q, h in zip(p, g)]
        expected[i, scores.index(max(scores))] = 1
    found = perturbed_choice(probs, noise)
    what = {"probs": copies[0], "noise": copies[1]}
    agree(found, expected, "Not one-hot at the highest log p + noise.", **what)
    agree(found.dtype, dtype, "The rows have the type of `probs`.", **what)
    changed = not (probs.equal(copies[0]) and noise.equal(copies[1]))
    agree(changed, False, "The arguments were changed.", **what)


@exercise
def test_scores_are_compared_in_float64() -> None:
    """In float32, log p + noise of both tokens would be the same number."""
    probs = torch.tensor([[0.5, 0.5]])
    noise = torch.tensor([[3.0, 3.0 + 1e-9]], dtype=torch.float64)
    broke = "The noise of token 1 is higher by 1e-9, and all else is equal."
    agree(perturbed_choice(probs, noise), torch.tensor([[0.0, 1.0]]), broke)


# -------------------------------------------------------------------- the same text


def drafters(seed: int) -> list[Drafter]:
    """One that shares the noise, and three that know nothing of it."""
    flat = torch.full((V,), 1 / V, dtype=torch.float64)
    return [
        ModelDrafter(DRAFT, chain(seed)),
        ModelDrafter(DRAFT, Sampling()),
        NgramDrafter(V, longest=2),
        Stateless(lambda text: flat),
    ]


WAYS = list(product(range(4), EXACT | LOSSY, (1, 2, 4)))


@cache
def alone(seed: int) -> tuple[int, ...]:
    done = generate_alone(TARGET, Request(PROMPT, N_NEW, chain(seed)), Seeded(seed))
    return done.tokens


@exercise
def test_a_seed_writes_one_text_whoever_drafts_and_judges() -> None:
    """1,000 seeds, each in one of all 60 combinations of drafter, judge and gamma."""
    for seed in range(1000):
        who, judge, gamma = WAYS[seed % len(WAYS)]
        decides = (EXACT | LOSSY)[judge]
        request = Request(PROMPT, N_NEW, chain(seed), gamma, decides)
        done = generate(TARGET, drafters(seed)[who], request, Seeded(seed + 1))
        how = {"seed": seed, "drafter": who, "judge": judge, "gamma": gamma}
        broke = "With this drafter the seed writes another text than the target alone."
        agree(done.tokens, alone(seed), broke, **how)


# -------------------------------------------------------------- the right distribution


def test_over_the_seeds_the_text_has_the_targets_distribution() -> None:
    """Whole texts of 1,000 seeds: noise shared by two positions would show."""
    counts = Counter(map(alone, range(1000)))
    request = Request(PROMPT, N_NEW, chain(None))
    expected = output_distribution(
        lambda chance: generate_alone(TARGET, request, chance).tokens
    )
    assert g_test(counts, expected).p_value > FALSE_ALARM


@cache
def noise(V: int) -> Tensor:  # -> [N_DRAWN, V]
    return torch.stack([gumbel_noise(7, t, V) for t in range(N_DRAWN)])


@exercise
def test_over_the_positions_a_row_is_drawn_from_as_it_says() -> None:
    """8,000 draws from one row, counted."""
    row = torch.tensor([0.5, 0.0, 0.3, 0.15, 0.05], dtype=torch.float64)
    drawn = perturbed_choice(row.expand(N_DRAWN, -1), noise(5)).argmax(dim=-1)
    counts = Counter((token,) for token in drawn.tolist())
    expected = {(token,): prob for token, prob in enumerate(row.tolist())}
    shares = torch.tensor([counts[token,] / N_DRAWN for token in range(5)])
    broke = "Tokens come out more or less often than the row says, by far."
    likely = g_test(counts, expected).p_value > FALSE_ALARM
    agree(shares, row if not likely else shares, broke, row=row)
    other = {**expected, (0,): 0.46, (2,): 0.34}
    assert draws_needed(expected, other, FALSE_ALARM, 0.99) < N_DRAWN


@exercise
@pytest.mark.parametrize("odds", [1, 2, 3, 7])
def test_two_tokens_are_drawn_exactly_by_integration(odds: int) -> None:
    """P(token 0) is an integral over u_0 of the u_1 below which token 0 still wins.

    The u_1 is found by bisection of the real code. It is u_0 ** odds, a polynomial,
    which Gauss and Legendre integrate exactly: 1 / (1 + odds).
    """
    points, weights = np.polynomial.legendre.leggauss(6)
    u_0 = torch.tensor((points + 1) / 2)
    row = torch.tensor([1, odds], dtype=torch.float64) / (1 + odds)
    low, high = torch.zeros(6).double(), torch.ones(6).double()
    for _ in range(60):
        middle = (low + high) / 2
        noise = gumbel(torch.stack([u_0, middle], dim=-1))
        wins = perturbed_choice(row.repeat(6, 1), noise)[:, 0] > 0
        low, high = middle.where(wins, low), high.where(wins, middle)
    found = float((low * torch.tensor(weights / 2)).sum())
    broke = "Token 0 is drawn with another probability."
    agree(found, 1 / (1 + odds), broke, row=row)


# ----------------------------------------------------------------------- the noise


def test_the_noise_is_a_function_of_seed_and_position_alone() -> None:
    """Whatever the vocabulary, the type and the rows beside it; three known numbers."""
    assert torch.equal(gumbel_noise(5, 9, 40)[:7], gumbel_noise(5, 9, 7))
    rows = torch.rand(4, 9, generator=torch.Generator().manual_seed(1)).softmax(-1)
    whole = coupled(rows, 3, n=11)
    for i in range(4):
        assert torch.equal(coupled(rows[i:].double(), 3, n=11 + i).float(), whole[i:])
    seen = {float(gumbel_noise(s, t, 1)) for s in range(40) for t in range(40)}
    assert len(seen) == 1600
    known = [0.30931491118583454, 0.35695623679350763, 0.036904530468356955]
    assert uniforms(1, 2, 3).tolist() == known
    assert whole.dtype == torch.float32


@exercise
def test_a_token_of_probability_0_is_never_drawn() -> None:
    """Beside one of 1e-300, whatever the noise."""
    rows = torch.tensor([[0.0, 1e-300, 0.0, 1.0]]).double().repeat(500, 1)
    n_drawn = float(coupled(rows, 1, 0)[:, [0, 2]].sum())
    agree(n_drawn, 0.0, "In 500 rows, tokens of probability 0 were drawn.", row=rows[0])
    row, noise = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1e6]]).double()
    broke = "Token 1 has probability 0, and much noise."
    agree(perturbed_choice(row, noise), row, broke, probs=row, noise=noise)


@pytest.mark.parametrize("seed, says", [(-1, "at least 0"), (2**64, "below 2")])
def test_a_seed_that_is_no_key_is_an_error(seed: int, says: str) -> None:
    with pytest.raises(ValueError, match=f"noise_seed must be {says}"):
        Sampling(noise_seed=seed)
    Sampling(noise_seed=2**64 - 1)


# ----------------------------------------------------------------- how often they agree


@given(rows=row_pairs())
def test_coupled_draws_agree_a_little_less_than_reject_accepts(
    rows: tuple[Tensor, Tensor]
) -> None:
    """(1 - TV) / (1 + TV) <= agreement <= 1 - TV, and the sum as it is written."""
    target, draft = rows
    found, most = float(coupled_overlap(target, draft)), overlap(target, draft)
    assert float(coupled_overlap_bound(most)) - 1e-12 <= found <= float(most) + 1e-12
    terms = [
        1 / sum(max(t / target[x], d / draft[x]) for t, d in zip(target, draft))
        for x in range(len(target))
        if target[x] > 0 and draft[x] > 0
    ]
    agree(found, float(sum(terms)), "Not the sum over tokens.", target=target)


def test_coupled_draws_agree_as_often_as_is_computed() -> None:
    """Counted over many positions; the bound and 1 - TV are well apart here."""
    target = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    draft = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    mine, yours = (
        perturbed_choice(row.expand(N_DRAWN, -1), noise(5)[:, :3])
        for row in (target, draft)
    )
    n_equal = int((mine * yours).sum())
    share = float(coupled_overlap(target, draft))
    expected = {(0,): 1 - share, (1,): share}
    counts = Counter({(0,): N_DRAWN - n_equal, (1,): n_equal})
    assert g_test(counts, expected).p_value > FALSE_ALARM
    assert 0.54 < share < 0.69  # 0.7 / 1.3 and 0.7

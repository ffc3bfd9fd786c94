"""Block verification: exact row by row, and never behind `reject`.

That whole texts keep the target's distribution is proved in test_distributions.py.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.core.rejection import Judge, reject
from minispec.exactness import (
    Distribution,
    assert_same_distribution,
    output_distribution,
)
from minispec.exactness.one_round import (
    distribution_of_one_round,
    distribution_of_rows,
)
from minispec.judges.block import reject_block

from support.checks import agree
from support.decoding import Scripted
from support.strategies import row_pairs


@st.composite
def rounds(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """The target's rows [K + 1, V] and a draft's [K, V], of every sort."""
    V, K = draw(st.integers(2, 3)), draw(st.integers(0, 3))
    pairs = [draw(row_pairs(V)) for _ in range(K + 1)]
    draft_rows = torch.stack([draft for _, draft in pairs])[:K]
    return torch.stack([target for target, _ in pairs]), draft_rows


@settings(max_examples=40)
@given(rows=rounds())
def test_one_round_has_the_targets_distribution(rows: tuple[Tensor, Tensor]) -> None:
    target_rows, draft_rows = rows
    found = distribution_of_one_round(reject_block, target_rows, draft_rows)
    assert_same_distribution(found, distribution_of_rows(target_rows))


# ------------------------------------------- rows that depend on the drafts before them

K, V = 2, 3
STRINGS = [text for n in range(K + 1) for text in product(range(V), repeat=n)]
Rows = dict[tuple[int, ...], Tensor]


def trees(seed: int) -> tuple[Rows, Rows]:
    """A target's and a draft's row after every string of up to K tokens."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(2, len(STRINGS), V, generator=generator, dtype=torch.float64)
    scale = 0.3 + 2 * torch.rand((), generator=generator, dtype=torch.float64)
    target, draft = (scale * logits).softmax(dim=-1)
    return dict(zip(STRINGS, target)), dict(zip(STRINGS, draft))


@cache
def committed(judge: Judge, seed: int, stop: bool) -> Distribution:
    """What one round commits. With `stop`, drafting ends after a token 0.

    K then depends on what was drawn, as with a drafter that stops when unsure.
    """
    target, draft = trees(seed)

    def run(chance: Randomness) -> tuple[int, ...]:
        text: tuple[int, ...] = ()
        while len(text) < K and not (stop and text[-1:] == (0,)):
            text = *text, chance.sample(draft[text])
        before = [text[:i] for i in range(len(text) + 1)]
        target_rows = torch.stack([target[one] for one in before])
        draft_rows = torch.stack([draft[one] for one in before[:-1]])
        judged = judge(torch.tensor(text), draft_rows, target_rows, chance)
        return *text[: judged.n_accepted], judged.next_token

    return output_distribution(run)


@pytest.mark.parametrize("stop", [False, True])
def test_a_round_and_what_the_target_adds_is_the_targets_text(stop: bool) -> None:
    """Texts of K + 1 tokens, of 100 random pairs of trees each way."""
    for seed in range(100):
        target, _ = trees(seed)
        found = committed(reject_block, seed, stop)
        for text in product(range(V), repeat=K + 1):
            row = [float(target[text[:i]][text[i]]) for i in range(K + 1)]
            ends = range(1, K + 2)
            got = sum(found.get(text[:n], 0) * math.prod(row[n:]) for n in ends)
            agree(got, math.prod(row), "Another probability.", text=text, seed=seed)


@pytest.mark.parametrize("stop", [False, True])
def test_never_fewer_are_accepted_than_by_reject(stop: bool) -> None:
    """In expectation, on the same pairs of trees; on average, clearly more."""
    gained = 0.0
    for seed in range(100):
        ours, plain = (
            sum(p * (len(text) - 1) for text, p in committed(judge, seed, stop).items())
            for judge in (reject_block, reject)
        )
        assert ours >= plain - 1e-12, (seed, ours, plain)
        gained += (ours - plain) / 100
    assert gained > 0.02


# ------------------------------------------------------------------------- by hand


def test_a_surplus_is_carried_over_and_a_failed_trial_rejects_nothing() -> None:
    """By hand, with the trials asked from the right."""
    target = torch.tensor([[0.8, 0.2], [0.2, 0.8], [0.5, 0.5]])
    draft = torch.tensor([[0.4, 0.6], [0.8, 0.2]])
    chance = Scripted(accepts=[False, True])
    verdict = reject_block(torch.tensor([0, 0]), draft, target, chance)
    assert verdict.n_accepted == 1 and chance.chances == pytest.approx([0.25, 1.0])
    first = Scripted(accepts=[False, False])
    flipped = target.flip(1), draft.flip(1)
    verdict = reject_block(torch.tensor([0, 1]), flipped[1], flipped[0], first)
    # kept_1 = 0.2 / 0.6 = 1/3, kept_2 = 1/3 * 0.2 / 0.8 = 1/12; S_1 = 1/15
    assert first.chances == pytest.approx([1 / 12, (1 / 15) / (1 / 15 + 2 / 3)])
    assert verdict.n_accepted == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rows_accept_all_and_impossible_drafts_none(dtype: torch.dtype) -> None:
    rows = torch.tensor([[0.1, 0.2, 0.7]], dtype=dtype).repeat(4, 1)
    verdict = reject_block(torch.tensor([2, 0, 1]), rows[:3], rows, Scripted())
    assert verdict.n_accepted == 3
    one_hot = torch.eye(3, dtype=dtype)
    chance = Scripted()
    verdict = reject_block(torch.tensor([1, 1]), one_hot[[1, 1]], one_hot, chance)
    assert (verdict.n_accepted, verdict.next_token) == (0, 0)
    assert max(chance.chances) == 0

"""Block verification: exact row by row, and never behind `reject`.

That whole texts keep the target's distribution is proved in test_distributions.py.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from itertools import product

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import assume, example, given, settings
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.core.rejection import Judge, reject
from minispec.exactness import Distribution, output_distribution
from minispec.exactness.one_round import (
    distribution_of_one_round,
    distribution_of_rows,
)
from minispec.judges.block import chances_kept, reject_block, trial_chances

from support.checks import agree, same_odds
from support.decoding import Scripted
from support.strategies import row_pairs


exercise = pytest.mark.exercise18
QUARTERS = st.integers(0, 4).map(lambda n: n / 4)

# ------------------------------------------------------------------- the three parts


@st.composite
def judged(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """K drafts that can be drawn, their rows [K, V], the target's rows [K + 1, V]."""
    V, K = draw(st.integers(2, 3)), draw(st.integers(0, 3))
    pairs = [draw(row_pairs(V)) for _ in range(K + 1)]
    drafts = torch.stack([draft for _, draft in pairs])[:K]
    possible = [(row > 0).nonzero()[:, 0].tolist() for row in drafts]
    tokens = [draw(st.sampled_from(ids)) for ids in possible]
    targets = torch.stack([target for target, _ in pairs])
    return torch.tensor(tokens, dtype=torch.long), drafts, targets


def kept_by_hand(ratios: list[float]) -> list[float]:
    """1, and then min(1, kept ratio), draft by draft."""
    kept = [1.0]
    for ratio in ratios:
        kept.append(min(1.0, kept[-1] * ratio))
    return kept


def verdicts_by_hand(tokens: Tensor, drafts: Tensor, targets: Tensor) -> Distribution:
    """The chance of each (n_accepted, next_token), from the equations in block.py."""
    K, ids = len(tokens), tokens.tolist()
    both = [(float(targets[i, x]), float(drafts[i, x])) for i, x in enumerate(ids)]
    kept, odds, left = kept_by_hand([t / d for t, d in both]), Counter(), 1.0
    for i in range(K, -1, -1):  # `left`: no longer run has passed
        if i == K:
            row, h = targets[K].tolist(), kept[K] if K else 1.0
        else:
            wanted = [kept[i] * t for t in targets[i].tolist()]
            row = [max(0.0, w - d) for w, d in zip(wanted, drafts[i].tolist())]
            S = sum(row)
            h = 1.0 if i == 0 or kept[i] == 1 else S / (S + 1 - kept[i])
            row = row if S > 0 else targets[i].tolist()
        for token, share in enumerate(row):
            odds[i, token] += left * h * share / sum(row)
        left *= 1 - h
    return {verdict: chance for verdict, chance in odds.items() if chance > 0}


@exercise
@given(st.lists(st.integers(0, 12).map(lambda n: n / 4), max_size=4))  # up to 3
def test_a_surplus_makes_up_for_a_deficit_before_it_and_is_cut_at_one(
    ratios: list[float]
) -> None:
    """The ratio is carried over whole; what is cut at 1 is the product so far."""
    expected = torch.tensor(kept_by_hand(ratios), dtype=torch.float64)
    found = chances_kept(torch.tensor(ratios, dtype=torch.float64))
    broke = "kept_i is not min(1, kept_(i-1) * ratio_i), from kept_0 = 1 on."
    agree(found, expected, broke, ratios=ratios)


@exercise
@given(judged(), st.lists(QUARTERS, min_size=3, max_size=3))
def test_a_trial_weighs_what_is_still_wanted_against_what_is_lost(
    one: tuple[Tensor, Tensor, Tensor], shares: list[float]
) -> None:
    """h = S / (S + 1 - kept), S = sum max(0, wanted - draft); where kept is 1, 1."""
    tokens, drafts, targets = one
    kept = torch.tensor(shares[: len(tokens)], dtype=torch.float64)
    wanted = kept[:, None] * targets[:-1]
    excess = [
        sum(max(0.0, w - d) for w, d in zip(*rows))
        for rows in zip(wanted.tolist(), drafts.tolist())
    ]
    by_hand = [1.0 if k == 1 else S / (S + 1 - k) for S, k in zip(excess, shares)]
    expected = torch.tensor(by_hand, dtype=torch.float64)
    found, broke = trial_chances(kept, wanted, drafts), "A trial has another chance."
    agree(found, expected, broke, kept=kept, wanted=wanted, draft_probs=drafts)


FIRST_KEPT_BY_HALF = (
    torch.tensor([0, 2]),
    torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.2, 0.6]], dtype=torch.float64),
    torch.tensor([[0.4, 0.3, 0.3], [0.5, 0.4, 0.1], [0, 0, 1]], dtype=torch.float64),
)


@exercise
@settings(max_examples=60)
@given(judged())
@example(FIRST_KEPT_BY_HALF)  # 0.5 p - q and p - q have other shares
def test_drafts_are_kept_and_followed_with_the_chances_of_the_equations(
    one: tuple[Tensor, Tensor, Tensor]
) -> None:
    """Of these drafts, each number kept and each token after them, enumerated. In
    whichever order trials are asked: the longest run of drafts that passes is kept."""
    tokens, drafts, targets = one
    copies = drafts.clone(), targets.clone()

    def run(chance: Randomness) -> tuple[int, int]:
        verdict = reject_block(tokens, drafts, targets, chance)
        return verdict.n_accepted, verdict.next_token

    found, expected = output_distribution(run), verdicts_by_hand(*one)
    broke = "(n_accepted, next_token) does not come out with its probability."
    what = {"tokens": tokens, "draft_probs": copies[0], "target_probs": copies[1]}
    same_odds(found, expected, broke, **what)
    broke = "The rows handed in were changed."
    agree(drafts, copies[0], broke, tolerance=0)
    agree(targets, copies[1], broke, tolerance=0)


@exercise
@given(judged())
def test_each_length_has_one_trial_and_one_token_is_drawn(
    one: tuple[Tensor, Tensor, Tensor]
) -> None:
    """Of the lengths 1 to K: none for h_0, which is of no use."""
    chance, K = Scripted(accepts=[False] * 9), len(one[0])
    assume(K > 0)
    reject_block(*one, chance)
    asked = len(chance.chances)
    agree(max(asked, K), K, "Trials, if all of them fail: K at most.", K=K)
    agree(len(chance.rows), 1, "Tokens drawn by randomness.sample.", K=K)


# ------------------------------------------------------------------------ exact, whole


@st.composite
def rounds(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """The target's rows [K + 1, V] and a draft's [K, V], of every sort."""
    V, K = draw(st.integers(2, 3)), draw(st.integers(0, 3))
    pairs = [draw(row_pairs(V)) for _ in range(K + 1)]
    draft_rows = torch.stack([draft for _, draft in pairs])[:K]
    return torch.stack([target for target, _ in pairs]), draft_rows


@exercise
@settings(max_examples=40)
@given(rows=rounds())
def test_one_round_has_the_targets_distribution(rows: tuple[Tensor, Tensor]) -> None:
    """What the round does not commit is drawn from the target."""
    target_rows, draft_rows = rows
    found = distribution_of_one_round(reject_block, target_rows, draft_rows)
    broke = "A text comes out more or less often than the target writes it."
    what = {"target rows": target_rows, "draft rows": draft_rows}
    same_odds(found, distribution_of_rows(target_rows), broke, **what)


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


@exercise
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


@exercise
@pytest.mark.parametrize("stop", [False, True])
def test_never_fewer_are_accepted_than_by_reject(stop: bool) -> None:
    """In expectation, on the same pairs of trees; on average, clearly more."""
    gained = 0.0
    for seed in range(100):
        ours, plain = (
            sum(p * (len(text) - 1) for text, p in committed(judge, seed, stop).items())
            for judge in (reject_block, reject)
        )
        broke = "Fewer drafts are accepted than `reject` accepts, on average."
        agree(min(ours, plain), plain, broke, pair=seed)
        gained += (ours - plain) / 100
    broke = "No more drafts are accepted than `reject` accepts, in 100 pairs of models."
    agree(gained > 0.02, True, broke, gained=gained)


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

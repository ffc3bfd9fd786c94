"""Judges that are not exact: the rule of each, its price, and where it has none."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from minispec import Drafter, ModelDrafter, Request, Sampling, generate, generate_alone
from minispec.core.randomness import Randomness
from minispec.core.rejection import Judge, Verdict
from minispec.exactness import assert_same_distribution, output_distribution, price_of
from minispec.exactness.one_round import (
    distribution_of_one_round,
    distribution_of_rows,
)
from minispec.exactness.price import Price
from minispec.judges import EXACT, LOSSY, agree_on_top_k, lenient, typical

from support.decoding import Fixed, Scripted, tiny
from support.strategies import row_pairs

V = 3


def n_accepted(judge: Judge, token: int, row: list[float]) -> int:
    """Whether a single draft, drawn from a flat row, stays at this target's row."""
    target = torch.tensor([row, row], dtype=torch.float64)
    draft = torch.full((1, len(row)), 1 / len(row), dtype=torch.float64)
    chance = Scripted()
    verdict = judge(torch.tensor([token]), draft, target, chance)
    assert chance.rows[-1].tolist() == row  # what follows is drawn from the target
    return verdict.n_accepted


def test_typical_acceptance_asks_less_where_the_target_is_unsure() -> None:
    """exp(-H) of a flat row of 8 is 1/8: times 0.3, that is below 0.09."""
    assert [n_accepted(typical(), 0, [p, 1 - p]) for p in (0.08, 0.095)] == [0, 1]
    flat = [0.05, 0.03] + [0.92 / 6] * 6
    entropy = -sum(p * math.log(p) for p in flat)
    assert 0.03 < 0.3 * math.exp(-entropy) < 0.05
    assert [n_accepted(typical(), token, flat) for token in (0, 1)] == [1, 0]
    assert n_accepted(typical(delta=0.45), 0, flat) == 0
    assert n_accepted(typical(), 1, [1.0, 0.0]) == 0


def test_top_k_agreement_asks_for_the_rank_and_nothing_impossible() -> None:
    row = [0.1, 0.5, 0.1, 0.3]
    for k, stay in ((1, [1]), (2, [1, 3]), (3, [0, 1, 3]), (9, [0, 1, 2, 3])):
        judge = agree_on_top_k(k)
        assert [t for t in range(4) if n_accepted(judge, t, row)] == stay
    assert [n_accepted(agree_on_top_k(2), t, [0.0, 1.0, 0.0]) for t in (0, 1)] == [0, 1]


def test_being_lenient_is_accepting_more_readily() -> None:
    target = torch.tensor([[0.2, 0.8], [0.5, 0.5]], dtype=torch.float64)
    draft = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    found = distribution_of_one_round(lenient(0.5), target, draft)
    half = {(0, 0): 0.2, (0, 1): 0.2, (1, 0): 0.3, (1, 1): 0.3}
    assert_same_distribution(found, half)


@settings(max_examples=60)
@given(rows=row_pairs())
def test_no_token_comes_out_more_often_than_lenience_allows(
    rows: tuple[Tensor, Tensor]
) -> None:
    target, draft = rows
    both = torch.stack([target, target])
    for lenience in (1.0, 0.5, 0.1):
        found = distribution_of_one_round(lenient(lenience), both, draft[None])
        for token, share in enumerate(target.tolist()):
            often = sum(p for text, p in found.items() if text[0] == token)
            assert often <= share / lenience + 1e-9
    exact = distribution_of_one_round(lenient(1.0), both, draft[None])
    assert_same_distribution(exact, distribution_of_rows(both))


# ------------------------------------------------------------------------- the price


def priced(
    judge: Judge, sampling: Sampling = Sampling(), drafter: Drafter | None = None
) -> Price:
    target, drafter = tiny(V, 0), drafter or ModelDrafter(tiny(V, 100), sampling)
    request = Request(torch.tensor([0, 1, 0]), 4, sampling, 2, judge)
    expected = output_distribution(
        lambda chance: generate_alone(target, request, chance).tokens
    )
    return price_of(lambda chance: generate(target, drafter, request, chance), expected)


def test_a_lossy_judge_pays_in_distance_what_it_gains_in_tokens() -> None:
    prices = {name: priced(judge) for name, judge in (EXACT | LOSSY).items()}
    for name in EXACT:
        assert prices[name].total_variation < 1e-12
    for name in LOSSY:
        assert prices[name].total_variation > 0.02, name
        assert "too often" in prices[name].worst(2)
    plain = prices["reject"].tokens_per_round
    assert prices["block"].tokens_per_round > plain
    for name in ("lenient", "typical"):
        assert prices[name].tokens_per_round > plain + 0.05, name
    # It also rejects what `reject` would always accept, and here loses both.
    assert prices["top-k"].tokens_per_round < plain
    steps = [priced(lenient(lenience)) for lenience in (1.0, 0.7, 0.4, 0.1)]
    distances = [step.total_variation for step in steps]
    speeds = [step.tokens_per_round for step in steps]
    assert distances == sorted(distances) and speeds == sorted(speeds)


def test_the_price_counts_by_hand() -> None:
    """Two drafts that always stay, where the target would have said 1 1 1 0."""

    def agreeable(
        tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, chance: Randomness
    ) -> Verdict:
        return Verdict(len(tokens), chance.sample(target_probs[-1]))

    wrong = Fixed([0, 1, 0, 2, 2, 2, 2], V)
    found = priced(agreeable, Sampling(temperature=0), wrong)
    assert found.tokens_per_round == 2  # rounds of 3 tokens and 1
    assert found.total_variation == 1
    assert found.worst().count("too") == 2


@pytest.mark.parametrize("judge", LOSSY)
@pytest.mark.parametrize("sampling", [Sampling(temperature=0), Sampling(noise_seed=5)])
def test_where_rows_are_one_hot_every_judge_is_exact(
    judge: str, sampling: Sampling
) -> None:
    assert priced(LOSSY[judge], sampling).total_variation == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: typical(epsilon=0),
        lambda: typical(delta=math.nan),
        lambda: lenient(0),
        lambda: lenient(1.5),
        lambda: agree_on_top_k(0),
    ],
)
def test_numbers_that_cannot_be_right_are_errors(make: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        make()  # type: ignore[operator]

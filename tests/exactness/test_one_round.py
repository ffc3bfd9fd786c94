"""One round alone: the reference is lossless, and one wrong line shows."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.core.rejection import Verdict, reject
from minispec.exactness import Distribution, TooManyBranches, assert_same_distribution
from minispec.exactness.one_round import distribution_of_one_round, distribution_of_rows

from support.strategies import probability_rows

TARGET = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]], dtype=torch.float64)
DRAFT = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)


def independent(rows: Tensor) -> Distribution:
    """One token from each row, by the plainest loop."""
    options = [[*enumerate(row)] for row in rows.tolist()]
    return {
        tuple(token for token, _ in drawn): math.prod(prob for _, prob in drawn)
        for drawn in product(*options)
    }


@pytest.mark.parametrize("V, K", [(2, 0), (3, 1), (2, 2)])
@given(data=st.data())
def test_the_reference_is_lossless_at_any_rows(V: int, K: int, data: Any) -> None:
    rows = torch.stack([data.draw(probability_rows(V)) for _ in range(2 * K + 1)])
    target, draft = rows[: K + 1], rows[K + 1 :]
    expected = independent(target)
    assert_same_distribution(distribution_of_rows(target), expected)
    found = distribution_of_one_round(reject, target, draft)
    assert_same_distribution(found, expected)


def with_a_mistake(
    tokens: Tensor, draft: Tensor, target: Tensor, chance: Randomness, mistake: str
) -> Verdict:
    """One draft, and at most one mistake."""
    token = int(tokens[0])
    t, d = float(target[0, token]), float(draft[0, token])
    accepted = chance.accept(d / t if mistake == "ratio upside down" else t / d)
    excess = (target[0] - draft[0]).clamp(min=0)
    rest = target[0] if mistake == "target as residual" else excess / excess.sum()
    bonus = target[0] if mistake == "bonus from row 0" else target[1]
    if mistake == "draft written over the target":
        target[:-1] = draft  # what is expected must not move with it
        return reject(tokens, draft, target, chance)
    return Verdict(int(accepted), chance.sample(bonus if accepted else rest))


@pytest.mark.parametrize(
    "mistake",
    [
        "ratio upside down",
        "target as residual",
        "bonus from row 0",
        "draft written over the target",
    ],
)
def test_one_wrong_line_is_found(mistake: str) -> None:
    right, wrong = (
        distribution_of_one_round(partial(with_a_mistake, mistake=one), TARGET, DRAFT)
        for one in ("", mistake)
    )
    assert_same_distribution(right, independent(TARGET))
    with pytest.raises(AssertionError, match="too often"):
        assert_same_distribution(wrong, distribution_of_rows(TARGET), tolerance=1e-3)


def test_drafts_from_other_rows_than_declared_are_found() -> None:
    """An argmax, declared as a draw, gives (2/5, 3/5, 0)."""
    best = torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64)
    found = distribution_of_one_round(reject, TARGET, DRAFT, drawn_from=best)
    first = torch.tensor([0.4, 0.6, 0.0], dtype=torch.float64)
    assert_same_distribution(found, independent(torch.stack([first, TARGET[1]])))
    found = distribution_of_one_round(reject, TARGET, best, drawn_from=best)
    assert_same_distribution(found, independent(TARGET))


def test_rows_must_fit_and_branches_are_limited() -> None:
    with pytest.raises(ValueError, match=r"need target_rows of shape \[2, 3\], got"):
        distribution_of_one_round(reject, TARGET[:1], DRAFT)
    with pytest.raises(ValueError, match=r"as draft_rows, \[1, 3\], got \[2, 3\]"):
        distribution_of_one_round(reject, TARGET, DRAFT, drawn_from=TARGET)
    with pytest.raises(TooManyBranches, match="more than 3 "):
        distribution_of_one_round(reject, TARGET, DRAFT, max_branches=3)


@pytest.mark.parametrize(
    "verdict, error",
    [
        (None, TypeError),
        ((1, 2), TypeError),
        (Verdict(0, 1.7), TypeError),  # type: ignore[arg-type]
        (Verdict(0.0, 1), TypeError),  # type: ignore[arg-type]
        (Verdict(2, 0), ValueError),
        (Verdict(-1, 0), ValueError),
        (Verdict(1, 3), ValueError),
    ],
)
def test_a_verdict_has_two_whole_numbers(verdict: Any, error: Any) -> None:
    with pytest.raises(error, match="n_accepted|next_token"):
        distribution_of_one_round(lambda *_: verdict, TARGET, DRAFT)

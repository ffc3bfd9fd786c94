"""Rejection sampling: what `reject` asks of chance, in which order, at which rows.

That the output then has the target's distribution is proved in test_distributions.py.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import example, given, settings
from torch import Tensor

from minispec.core.rejection import Verdict, acceptance_ratios, reject, residual

from support.checks import agree
from support.decoding import Scripted
from support.strategies import probability_rows, row_pairs

Pair = tuple[Tensor, Tensor]  # a target's row, a draft's row


# ---------------------------------------------------------------------- the residual


@pytest.mark.exercise8
@given(pair=row_pairs())
def test_accepted_and_resampled_mass_add_up_to_the_target(pair: Pair) -> None:
    """minimum(t, d) + P(rejected) * residual(t, d) == t, at each token."""
    target, draft = pair
    accepted = torch.minimum(target, draft)
    rest = residual(target.clone(), draft.clone())
    total = accepted + (1 - accepted.sum()) * rest
    broke = "minimum(target, draft) + P(rejected) * residual is not the target's row."
    agree(total, target, broke, target=target, draft=draft, residual=rest)


@pytest.mark.exercise8
@given(pair=row_pairs())
def test_the_residual_is_the_excess_of_the_target_normalised(pair: Pair) -> None:
    """However small: in proportion, and never where the draft gave enough."""
    target, draft = pair
    copies = target.clone(), draft.clone()
    excess = [max(0.0, t - d) for t, d in zip(target.tolist(), draft.tolist())]
    shares = [share / sum(excess) for share in excess] if any(excess) else None
    expected = torch.tensor(shares, dtype=torch.float64) if shares else target
    broke = "The residual is not max(0, target - draft), made to sum to 1."
    agree(residual(target, draft), expected, broke, target=target, draft=draft)
    broke = "The rows handed in were changed."
    agree(torch.stack([target, draft]), torch.stack(copies), broke, tolerance=0)


@pytest.mark.exercise8
@pytest.mark.parametrize("excess", [1e-3, 1e-9, 1e-15])
def test_however_small_the_excess_it_is_all_that_counts(excess: float) -> None:
    target = torch.tensor([0.5 + excess, 0.5], dtype=torch.float64)
    draft = torch.tensor([0.5, 0.5 + excess], dtype=torch.float64)
    expected, broke = torch.tensor([1.0, 0.0]), "Only token 0 was drafted too rarely."
    what = {"target": "[0.5 + e, 0.5]", "draft": "[0.5, 0.5 + e]", "e": excess}
    agree(residual(target, draft), expected, broke, **what)


@pytest.mark.exercise8
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(target=probability_rows(5), shrink=st.sampled_from([0.0, 1e-16, 1e-7]))
def test_without_any_excess_the_targets_row_is_used(
    dtype: torch.dtype, target: Tensor, shrink: float
) -> None:
    """The draft is at least the target everywhere but for rounding: no 0 / 0."""
    draft, less = target.to(dtype), (target * (1 - shrink)).to(dtype)
    rest = residual(less, draft)
    agree(rest.dtype, dtype, "The residual has the type of the rows.")
    broke = "Where the target wants nothing more, its own row is the residual."
    shares, expected = rest / rest.sum(), draft / draft.sum()
    what = {"target": less, "draft": draft, "residual": rest}
    agree(shares, expected, broke, tolerance=1e-6, **what)


# ------------------------------------------------------------------ acceptance ratios


@st.composite
def rounds(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """K drafts [K] that can be drawn, their rows [K, 4], the target's rows [K + 1, 4].

    K may be 0.
    """
    pairs = draw(st.lists(row_pairs(4), max_size=3))
    possible = [(draft > 0).nonzero()[:, 0].tolist() for _, draft in pairs]
    tokens = [draw(st.sampled_from(ids)) for ids in possible]
    draft_rows = torch.stack([*[d for _, d in pairs], torch.empty(4).double()])[:-1]
    target_rows = torch.stack([*[t for t, _ in pairs], draw(probability_rows(4))])
    return torch.tensor(tokens, dtype=torch.long), draft_rows, target_rows


SMALL = torch.tensor([[1e-9, 1 - 1e-9]], dtype=torch.float64)


@pytest.mark.exercise7
@given(one=rounds())
@example(one=(torch.tensor([0]), SMALL, SMALL.expand(2, 2)))
def test_ratios_are_target_over_draft_at_each_token(
    one: tuple[Tensor, Tensor, Tensor]
) -> None:
    """Row i of both for token i; the bonus row plays no part."""
    tokens, draft_rows, target_rows = one
    plain = [
        float(target_rows[i, token]) / float(draft_rows[i, token])
        for i, token in enumerate(tokens.tolist())
    ]
    broke = "Ratio i is not target_probs[i, tokens[i]] / draft_probs[i, tokens[i]]."
    agree(
        acceptance_ratios(*one),
        torch.tensor(plain, dtype=torch.float64),
        broke,
        tolerance=1e-12 * max([1.0, *plain]),
        tokens=tokens,
        draft_probs=draft_rows,
        target_probs=target_rows,
    )


# --------------------------------------------------------------------------- the loop


@pytest.mark.exercise8
@settings(max_examples=100)
@given(rounds(), st.lists(st.booleans(), min_size=3, max_size=3), st.integers(0, 3))
def test_drafts_are_judged_from_the_left_up_to_the_first_rejection(
    one: tuple[Tensor, Tensor, Tensor], accepts: list[bool], extra: int
) -> None:
    """One decision each, then one draw: from the rejected position's residual, or the
    bonus from row K. Id 0 is a token like any other."""
    tokens, draft_rows, target_rows = one
    chance = Scripted([extra], accepts)
    verdict = reject(*one, chance)

    K = len(tokens)
    n = [*accepts[:K], False].index(False)
    expected = target_rows[K] if n == K else residual(target_rows[n], draft_rows[n])
    what: Any = {"accepted": accepts[:K], "tokens": tokens}
    what |= {"draft_probs": draft_rows, "target_probs": target_rows}
    broke = "n_accepted counts the drafts before the first rejection."
    agree(verdict, Verdict(n, extra), broke, **what)
    ratios = acceptance_ratios(*one)[: n + 1].clamp(max=1).tolist()
    broke = "Each draft up to the first rejection is accepted with its own ratio."
    agree([min(1.0, chance) for chance in chance.chances], ratios, broke, **what)
    agree(len(chance.rows), 1, "One token follows the accepted drafts.", **what)
    broke = "The extra token was drawn from another row."
    agree(chance.rows[0], expected, broke, n_accepted=n, **what)


@pytest.mark.exercise8
def test_a_rejection_by_rounding_alone_still_has_a_distribution() -> None:
    """In float32 the draft exceeds 1 by rounding and is at least the target everywhere:
    a ratio below 1 and nothing left over."""
    target = torch.tensor([0.5, 0.5 - 2**-24])
    draft = torch.tensor([0.5, 0.5])
    chance = Scripted(accepts=[False])
    reject(torch.tensor([1]), draft[None], torch.stack([target, target]), chance)
    judged = len(chance.chances), 0 < sum(chance.chances) < 1
    agree(judged, (1, True), "The draft is judged once, with a ratio just below 1.")
    agree(chance.rows[0], target, "The token must come from the target's own row.")

"""The kit turned on code that is not ours: transformers' `_speculative_sampling`.

What was found (transformers 5.24, torch 2.13), by enumerating every outcome:

- In float64 its output has the target's distribution at every p and q tried, to 3e-16,
  where both give every token some probability.
- It accepts where `r <= p / q`, and torch.rand can give exactly 0. A token that the
  target forbids (p = 0) therefore passes with q(token) * 2**-24 in float32, about one
  in 34 million drafts at q = 1/2, and q(token) * 2**-53 in float64. `r < p / q` would
  never let it pass.
- Its residual is divided by its own sum with no guard. Where p lies below q in one
  entry by a rounding error and above it nowhere, a rejection (chance below 1e-7) leads
  to 0 / 0, and torch.multinomial raises RuntimeError. Decoding dies there; no wrong
  token comes out.
- It takes q from the logits it is handed. If these are not what the candidates were
  drawn from (an argmax with raw logits: transformers issue 47932), the distribution is
  wrong: p = (.6, .3, .1), q = (.2, .5, .3) gives (.4, .6, 0). That is its caller's
  affair.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.core.rejection import Verdict, reject
from minispec.exactness import FLOAT32_ROUNDING, assert_same_distribution
from minispec.exactness.one_round import distribution_of_one_round, distribution_of_rows
from minispec.exactness.statistics import draw, draws_needed, g_test
from minispec.exactness.torch_chance import torch_draws_from


@pytest.fixture(autouse=True, scope="module")
def transformers() -> None:
    """Imported only when a test runs: it takes seconds."""
    utils = pytest.importorskip("transformers.generation.utils")
    if not hasattr(utils, "_speculative_sampling"):
        pytest.skip("transformers has moved its sampler")


def their_verdict(tokens: Tensor, draft_logits: Tensor, target_logits: Tensor) -> Any:
    """Their sampler on [K] tokens, [K, V] and [K + 1, V] logits: a batch of one."""
    from transformers.generation import utils

    valid, n_matches = utils._speculative_sampling(
        tokens[None], draft_logits[None], len(tokens), target_logits[None]
    )
    return Verdict(int(n_matches), int(valid[0, -1]))


def theirs(
    tokens: Tensor, draft_rows: Tensor, target_rows: Tensor, randomness: Randomness
) -> Verdict:
    """The adapter: rows become logits, and its draws are asked of `randomness`."""
    with torch_draws_from(randomness):
        return their_verdict(tokens, draft_rows.log(), target_rows.log())


def in_float32(
    tokens: Tensor, draft_rows: Tensor, target_rows: Tensor, randomness: Randomness
) -> Verdict:
    return theirs(tokens, draft_rows.float(), target_rows.float(), randomness)


def rows(*weights: list[float]) -> Tensor:
    table = torch.tensor(weights, dtype=torch.float64)
    return table / table.sum(-1, keepdim=True)


PAIRS = {  # target rows, draft rows
    "uneven": (rows([6, 3, 1], [1, 1, 2]), rows([2, 5, 3])),
    "alike": (rows([5, 3, 2], [1, 7, 2]), rows([4, 3, 3])),
    "far apart": (rows([98, 1, 1], [1, 2, 3]), rows([1, 1, 98])),
    "equal": (rows([6, 3, 1], [2, 1, 1]), rows([6, 3, 1])),
    "two drafts": (rows([6, 3, 1], [1, 8, 1], [1, 1, 1]), rows([2, 5, 3], [3, 3, 4])),
    "three drafts": (
        rows([6, 4], [1, 9], [5, 5], [7, 3]),
        rows([2, 8], [5, 5], [1, 9]),
    ),
    "all but truncated": (rows([6, 3, 1], [1, 1, 1]), rows([1e-300, 5, 3])),
}


@pytest.mark.parametrize("name", PAIRS)
def test_in_float64_it_is_lossless(name: str) -> None:
    target, draft = PAIRS[name]
    found = distribution_of_one_round(theirs, target, draft)
    assert_same_distribution(found, distribution_of_rows(target))


@given(
    weights=st.lists(
        st.lists(st.floats(0.01, 1), min_size=3, max_size=3), min_size=3, max_size=3
    )
)
def test_it_is_lossless_at_any_positive_rows(weights: list[list[float]]) -> None:
    table = rows(*weights)
    found = distribution_of_one_round(theirs, table[:2], table[2:])
    assert_same_distribution(found, distribution_of_rows(table[:2]))


@pytest.mark.parametrize("sampler, bits", [(theirs, 53), (in_float32, 24)])
def test_what_the_target_forbids_passes_when_the_uniform_is_0(
    sampler: Any, bits: int
) -> None:
    target, draft = rows([0, 1, 1], [2, 3, 5]), rows([2, 1, 1])

    def forbidden(one: Any) -> float:
        found = distribution_of_one_round(one, target, draft)
        return sum(prob for key, prob in found.items() if key[0] == 0)

    assert forbidden(sampler) == pytest.approx(0.5 * 2.0**-bits, rel=1e-6)
    assert forbidden(reject) == 0


@pytest.mark.parametrize("name", PAIRS)
def test_in_float32_it_is_lossless_but_for_rounding(name: str) -> None:
    target, draft = PAIRS[name]
    found = distribution_of_one_round(in_float32, target, draft)
    assert_same_distribution(found, distribution_of_rows(target), FLOAT32_ROUNDING)


def rounded_apart() -> tuple[Tensor, Tensor]:
    """Two float32 rows of logits that differ by rounding only: p <= q everywhere."""
    for seed in range(200):
        generator = torch.Generator().manual_seed(seed)
        draft = torch.randn(1, 3, generator=generator)
        target = draft + 1e-7 * torch.randn(1, 3, generator=generator)
        excess = target.softmax(-1) - draft.softmax(-1)
        if excess.max() <= 0 and excess.min() < 0:
            return target, draft
    pytest.skip("no such rows with this softmax")


def test_a_residual_without_mass_raises() -> None:
    target, draft = rounded_apart()
    twice = torch.cat([target, target])
    p, q = twice.softmax(-1), draft.softmax(-1)

    def at_these_logits(t: Tensor, d: Tensor, p: Tensor, chance: Randomness) -> Verdict:
        with torch_draws_from(chance):
            return their_verdict(t, draft, twice)

    wide = rows(*p.tolist()), rows(*q.tolist())
    with pytest.raises(RuntimeError, match="no mass"):
        distribution_of_one_round(at_these_logits, *wide)

    def ours(t: Tensor, d: Tensor, p_: Tensor, chance: Randomness) -> Verdict:
        return reject(t, q.double(), p.double() / p.double().sum(-1, True), chance)

    found = distribution_of_one_round(ours, *wide)
    assert_same_distribution(found, distribution_of_rows(wide[0]), FLOAT32_ROUNDING)


def test_a_q_that_is_not_what_was_drawn_from_shows() -> None:
    target, draft = PAIRS["uneven"]
    best, wrong = rows([0, 1, 0]), rows([4, 6, 0])
    found = distribution_of_one_round(theirs, target, draft, drawn_from=best)
    expected = distribution_of_rows(torch.cat([wrong, target[1:]]))
    assert_same_distribution(found, expected)


def test_the_statistical_form_agrees() -> None:
    """As it runs, on torch's own generator. False alarms: 1e-4.

    So many draws that a distribution 4 points off would be found with power 0.999; an
    argmax declared as a draw is 30 points off.
    """
    target, draft = PAIRS["uneven"]
    expected = distribution_of_rows(target[:1])
    n = draws_needed(expected, distribution_of_rows(rows([56, 33, 11])))
    assert 1000 < n < 10_000

    def first_token(drawn_from: Tensor) -> list[int]:
        tokens = torch.multinomial(drawn_from, 1)[:, 0]
        verdict = their_verdict(tokens, draft.log(), target.log())
        return [int(tokens[0]) if verdict.n_accepted else verdict.next_token]

    best = rows([0, 1, 0])
    right = draw(lambda: first_token(draft), n, seed=1)
    wrong = draw(lambda: first_token(best), n, seed=2)
    assert g_test(right, expected).p_value > 1e-4 > g_test(wrong, expected).p_value

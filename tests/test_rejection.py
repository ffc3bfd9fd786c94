"""Rejection sampling: whatever is drafted, what comes out is the target's, in law.

The gate is `output_law`: the real `reject` is run down every branch of chance. Samplers
with well-known mistakes stand beside it, with the wrong laws they are known to have, so
that the tests are seen to tell right from wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from minispec.exactness import Law, largest_difference, output_law
from minispec.randomness import Randomness, Seeded
from minispec.rejection import Verdict

from oracles import g_limit, g_statistic, naive_completed, naive_continuations
from strategies import Tables, probability_rows, row_pairs, tables

Pair = tuple[Tensor, Tensor]  # a target's row, a draft's row
same = partial(torch.testing.assert_close, rtol=0, atol=1e-12)  # in float64


def row(*probs: float) -> Tensor:
    return torch.tensor(probs, dtype=torch.float64)


def one_hot(token: int, vocab_size: int) -> Tensor:
    return row(*[float(i == token) for i in range(vocab_size)])


def first_token(verdict: Verdict, tokens: Tensor) -> tuple[int, ...]:
    """Of the tokens a round of one draft commits."""
    return (int(tokens[0]) if verdict.n_accepted else verdict.next_token,)


# ---------------------------------------------------------------------- the residual


@pytest.mark.exercise8
@given(pair=row_pairs())
def test_kept_and_replaced_add_up_to_the_target(impl: ModuleType, pair: Pair) -> None:
    """minimum(t, d) + (1 - beta) * residual(t, d) == t, with beta = sum of minimum."""
    target, draft = pair
    kept = torch.minimum(target, draft)
    replaced = (1 - kept.sum()) * impl.rejection.residual(target, draft)
    same(kept + replaced, target)


@pytest.mark.exercise8
@given(pair=row_pairs())
def test_the_residual_is_a_distribution(impl: ModuleType, pair: Pair) -> None:
    rest = impl.rejection.residual(*pair)
    assert (rest >= 0).all()
    same(rest.sum(), torch.tensor(1.0).double())


@pytest.mark.exercise8
@given(pair=row_pairs())
def test_the_residual_lies_where_the_target_wants_more(
    impl: ModuleType, pair: Pair
) -> None:
    target, draft = pair
    wants_more = target > draft
    if wants_more.any():
        support = impl.rejection.residual(target, draft) > 0
        assert support.tolist() == wants_more.tolist()


@pytest.mark.exercise8
@given(pair=row_pairs())
def test_the_residual_keeps_the_proportions_of_the_excess(
    impl: ModuleType, pair: Pair
) -> None:
    """Not a softmax of it, which would give weight to every token."""
    target, draft = pair
    rest = impl.rejection.residual(target, draft)
    excess = [max(0.0, t - d) for t, d in zip(target.tolist(), draft.tolist())]
    if sum(excess) > 0:
        same(rest, row(*[x / sum(excess) for x in excess]))


@pytest.mark.exercise8
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(
    target=probability_rows(5),
    shrink=st.sampled_from([0.0, 1e-16, 1e-7]),
)
def test_without_any_excess_the_target_row_is_used(
    impl: ModuleType, dtype: torch.dtype, target: Tensor, shrink: float
) -> None:
    """Equal rows, or a target that lost mass to rounding: no division by zero."""
    draft = target.to(dtype)
    less = (target * (1 - shrink)).to(dtype)
    rest = impl.rejection.residual(less, draft)
    assert rest.dtype == dtype
    torch.testing.assert_close(rest / rest.sum(), draft / draft.sum())


@pytest.mark.exercise8
@pytest.mark.parametrize(
    "smallest, dtype", [(1e-45, torch.float32), (5e-324, torch.float64)]
)
def test_the_smallest_excess_there_is_counts(
    impl: ModuleType, smallest: float, dtype: torch.dtype
) -> None:
    target = torch.tensor([1.0, smallest, 0.0], dtype=dtype)
    draft = torch.tensor([1.0, 0.0, smallest], dtype=dtype)
    assert impl.rejection.residual(target, draft).tolist() == [0, 1, 0]


@pytest.mark.exercise8
@given(pair=row_pairs())
def test_the_residual_leaves_its_arguments_alone(impl: ModuleType, pair: Pair) -> None:
    copies = [one.clone() for one in pair]
    impl.rejection.residual(*pair)
    assert all(one.equal(copy) for one, copy in zip(pair, copies))


# ------------------------------------------------------------------ acceptance ratios


@pytest.mark.exercise7
@given(
    pairs=st.lists(row_pairs(4), max_size=4),
    bonus=probability_rows(4),
    data=st.data(),
)
def test_ratios_are_target_over_draft_at_each_token(
    impl: ModuleType, pairs: list[Pair], bonus: Tensor, data: st.DataObject
) -> None:
    """Row i of both for token i; the bonus row plays no part. K = 0 is legal."""
    drafted = [
        data.draw(st.sampled_from([t for t in range(4) if draft[t] > 0]))
        for _, draft in pairs
    ]
    ratios = impl.rejection.acceptance_ratios(
        torch.tensor(drafted, dtype=torch.int64),
        torch.stack([draft for _, draft in pairs]) if pairs else torch.empty(0, 4),
        torch.stack([*[target for target, _ in pairs], bonus]),
    )
    plain = [
        float(target[token]) / float(draft[token])
        for token, (target, draft) in zip(drafted, pairs)
    ]
    assert ratios.tolist() == pytest.approx(plain, rel=1e-12)


@pytest.mark.exercise7
@given(position=st.integers(0, 2))
def test_a_draft_that_could_not_be_drawn_is_an_error(
    impl: ModuleType, position: int
) -> None:
    draft_probs = torch.full((3, 2), 0.5)
    draft_probs[position] = torch.tensor([1.0, 0.0])
    tokens = torch.ones(3, dtype=torch.int64)
    with pytest.raises(ValueError, match="draft probability 0"):
        target_probs = torch.full((4, 2), 0.5)
        impl.rejection.acceptance_ratios(tokens, draft_probs, target_probs)


@pytest.mark.parametrize("shape", [(2, 1), (2, 5), (1, 4), (3, 4)])
def test_rows_of_another_shape_are_refused(
    impl: ModuleType, shape: tuple[int, int]
) -> None:
    """One column or one row too few would be spread over all, and bend the law."""
    draft, target = torch.full(shape, 0.25), torch.full((3, 4), 0.25)
    with pytest.raises(ValueError, match=r"must be \[K, V\] .* \[2, 4\], got"):
        impl.rejection.reject(torch.tensor([0, 0]), draft, target, Seeded(0))


@pytest.mark.exercise7
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ratios_keep_the_precision_of_the_rows(
    impl: ModuleType, dtype: torch.dtype
) -> None:
    """In bfloat16 a uniform is 0 once in 512 draws, and 0.999 is 1."""
    target_probs = torch.tensor([[0.4995, 0.5005], [1, 0]], dtype=dtype)
    draft_probs = torch.tensor([[0.5, 0.5]], dtype=dtype)
    tokens = torch.tensor([0])
    ratios = impl.rejection.acceptance_ratios(tokens, draft_probs, target_probs)
    assert ratios.dtype == dtype
    assert ratios.tolist() == pytest.approx([0.999], abs=1e-7)


# --------------------------------------------------------------------- the whole law


def block(
    reject: Callable[..., Verdict], rows: Tables, K: int, randomness: Randomness
) -> list[int]:
    """Draft K tokens from the draft's rows, judge them, and say what is committed."""
    tokens: list[int] = []
    for _ in range(K):
        tokens.append(randomness.sample(rows.draft(tuple(tokens))))
    before = [tuple(tokens[:i]) for i in range(K + 1)]
    verdict = reject(
        torch.tensor(tokens, dtype=torch.int64),
        torch.stack([rows.draft(prefix) for prefix in before[:K]]),
        torch.stack([rows.target(prefix) for prefix in before]),
        randomness,
    )
    return [*tokens[: verdict.n_accepted], verdict.next_token]


@pytest.mark.exercise7
@pytest.mark.exercise8
@pytest.mark.parametrize("vocab_size, K", [(2, 1), (4, 1), (2, 2), (3, 2), (2, 3)])
@given(data=st.data())
def test_a_block_is_distributed_as_the_target(
    impl: ModuleType, vocab_size: int, K: int, data: st.DataObject
) -> None:
    """Every row depends on all before it; what is missing is added by the target."""
    rows = data.draw(tables(vocab_size))
    blocks = output_law(partial(block, impl.rejection.reject, rows, K))
    law = naive_completed(blocks, rows.target, K + 1)
    target = naive_continuations(rows.target, (), K + 1)
    assert largest_difference(law, target) < 1e-12


@pytest.mark.exercise7
@pytest.mark.exercise8
def test_a_block_of_three_over_three_tokens(impl: ModuleType) -> None:
    """The largest case, once: rows with a zero, one-hot, equal and nearly equal."""
    rows = Tables(
        [
            (row(0.6, 0.3, 0.1), row(0.2, 0.5, 0.3)),
            (row(0.5, 0.5, 0.0), row(0.0, 0.25, 0.75)),
            (row(0.1, 0.1, 0.8), row(0.1, 0.1, 0.8)),
            (row(0.0, 1.0, 0.0), row(0.3, 0.3, 0.4)),
            (row(0.3, 0.3, 0.4), row(0.3 - 1e-9, 0.3 + 1e-9, 0.4)),
        ]
    )
    blocks = output_law(partial(block, impl.rejection.reject, rows, 3))
    law = naive_completed(blocks, rows.target, 4)
    target = naive_continuations(rows.target, (), 4)
    assert largest_difference(law, target) < 1e-12


@pytest.mark.exercise7
@pytest.mark.exercise8
@given(pair=row_pairs())
def test_the_acceptance_rate_is_the_overlap(impl: ModuleType, pair: Pair) -> None:
    """Drawn and judged by the same row: sum of min(t, d). Drawn, but declared to be
    certain (a one-hot row): sum of t * d, which is less. The law is the target's."""
    target, draft = pair
    V = len(target)

    def run(certain: bool, randomness: Randomness) -> tuple[int, ...]:
        token = randomness.sample(draft)
        declared = one_hot(token, V) if certain else draft
        tokens = torch.tensor([token])
        rows = torch.stack([target, target])
        verdict = impl.rejection.reject(tokens, declared[None], rows, randomness)
        return verdict.n_accepted, first_token(verdict, tokens)[0]

    rates = {True: (target * draft).sum(), False: torch.minimum(target, draft).sum()}
    for certain, rate in rates.items():
        law = output_law(partial(run, certain))
        accepted = sum(prob for (n, _), prob in law.items() if n == 1)
        assert accepted == pytest.approx(float(rate), abs=1e-12)
        committed = torch.zeros(V, dtype=torch.float64)
        for (_, token), prob in law.items():
            committed[token] += prob
        same(committed, target)


# ------------------------------------------------- the contract, and how it is broken

TARGET, DRAFT = row(0.6, 0.3, 0.1), row(0.2, 0.5, 0.3)


def law_of_one(
    reject: Callable[..., Verdict],
    drawn_from: Tensor,
    declared: Tensor,
    target: Tensor = TARGET,
) -> Law:
    """Of the first token, where the draft comes from one row and declares another."""

    def run(randomness: Randomness) -> tuple[int, ...]:
        tokens = torch.tensor([randomness.sample(drawn_from)])
        rows = torch.stack([target, target])
        return first_token(reject(tokens, declared[None], rows, randomness), tokens)

    return output_law(run)


def assert_law(law: Law, *probs: float) -> None:
    expected: Law = {(token,): prob for token, prob in enumerate(probs)}
    assert largest_difference(law, expected) < 1e-12


@pytest.mark.exercise7
@pytest.mark.exercise8
def test_the_declared_row_must_be_the_one_drawn_from(impl: ModuleType) -> None:
    """An argmax declared as a draw: Hugging Face transformers issue 47932."""
    law = partial(law_of_one, impl.rejection.reject)
    assert_law(law(DRAFT, DRAFT), 0.6, 0.3, 0.1)
    best = one_hot(1, 3)
    assert_law(law(best, best), 0.6, 0.3, 0.1)
    assert_law(law(best, DRAFT), 2 / 5, 3 / 5, 0)  # an argmax, declared as a draw


@pytest.mark.exercise7
@pytest.mark.exercise8
def test_a_truncated_draft_must_declare_its_truncated_row(impl: ModuleType) -> None:
    """Truncation on either side changes speed, not the law."""
    law = partial(law_of_one, impl.rejection.reject)
    truncated = row(0, 5 / 8, 3 / 8)
    assert_law(law(truncated, truncated), 0.6, 0.3, 0.1)
    assert_law(law(truncated, DRAFT), 1 / 2, 3 / 8, 1 / 8)
    top_2 = row(2 / 3, 1 / 3, 0)
    assert_law(law(DRAFT, DRAFT, target=top_2), 2 / 3, 1 / 3, 0)


def test_the_softmax_of_the_clamped_difference_is_no_residual() -> None:
    """The mistake of Hugging Face transformers pull request 28508."""

    def softmax_residual(target: Tensor, draft: Tensor) -> Tensor:
        return (target - draft).clamp(min=0).softmax(dim=-1)

    def softmax_reject(
        tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, randomness: Any
    ) -> Verdict:
        token = int(tokens[0])
        ratio = target_probs[0, token] / draft_probs[0, token]
        n_accepted = randomness.leading_accepts(ratio[None])
        rest = softmax_residual(target_probs[0], draft_probs[0])
        row = target_probs[1] if n_accepted else rest
        return Verdict(n_accepted, randomness.sample(row))

    e = math.exp(0.4)  # the target wants 0.4 more of token 0, and of no other
    wrong = row(e, 1, 1) / (e + 2)
    same(softmax_residual(TARGET, DRAFT), wrong)
    assert wrong.tolist() == pytest.approx([0.427, 0.286, 0.286], abs=1e-3)
    kept = torch.minimum(TARGET, DRAFT)
    law = law_of_one(softmax_reject, DRAFT, DRAFT)
    assert_law(law, *(kept + 0.4 * wrong).tolist())
    assert law[0,] < 0.4  # the target gives it 0.6


# -------------------------------------------------------------------------- the edges


class Forced:
    """A `Randomness` that accepts so many and remembers what it was asked to draw."""

    def __init__(self, n_accepted: int, token: int = 0) -> None:
        self.n_accepted, self.token = n_accepted, token
        self.rows: list[Tensor] = []

    def leading_accepts(self, ratios: Tensor) -> int:
        return self.n_accepted

    def sample(self, probs: Tensor) -> int:
        self.rows.append(probs)
        return self.token


@given(
    target_probs=st.lists(probability_rows(4), min_size=1, max_size=4),
    data=st.data(),
)
def test_the_extra_token_comes_from_the_row_of_the_first_refusal(
    impl: ModuleType, target_probs: list[Tensor], data: st.DataObject
) -> None:
    """The bonus from row K, and id 0 is a token like any other."""
    K = len(target_probs) - 1
    n_accepted = data.draw(st.integers(0, K))
    drafted = data.draw(st.lists(st.integers(0, 3), min_size=K, max_size=K))
    tokens = torch.tensor(drafted, dtype=torch.int64)
    draft_probs = torch.full((K, 4), 0.25, dtype=torch.float64)
    forced = Forced(n_accepted, data.draw(st.integers(0, 3)))
    verdict = impl.rejection.reject(
        tokens, draft_probs, torch.stack(target_probs), forced
    )
    assert (verdict.n_accepted, verdict.next_token) == (n_accepted, forced.token)
    wanted = target_probs[n_accepted]
    if n_accepted < K:
        excess = (wanted - 0.25).clamp(min=0)
        wanted = excess / excess.sum() if excess.sum() > 0 else wanted
    assert len(forced.rows) == 1
    same(forced.rows[0], wanted)


@given(target=probability_rows(4), token=st.integers(0, 3))
def test_a_refusal_between_equal_rows_still_has_a_distribution(
    impl: ModuleType, target: Tensor, token: int
) -> None:
    """Only rounding can refuse then; what follows must not be NaN."""
    token = token if target[token] > 0 else int(target.argmax())
    forced = Forced(n_accepted=0)
    rows = torch.stack([target, target])
    impl.rejection.reject(torch.tensor([token]), target[None], rows, forced)
    same(forced.rows[0], target)


class Fixed:
    """Stands in for the generator: the same uniform for ever."""

    def __init__(self, u: float) -> None:
        self.u = u

    def random(self) -> float:
        return self.u


@pytest.mark.exercise7
@pytest.mark.parametrize("u", [0.0, 1 - 2**-53])
def test_what_the_target_forbids_never_passes_and_what_it_prefers_does(
    impl: ModuleType, u: float
) -> None:
    randomness = impl.randomness.Seeded(0)
    randomness._generator = Fixed(u)
    never, always = row(0, 1), row(1, 0)
    tokens, draft_probs = torch.tensor([0]), row(0.5, 0.5)[None]
    for target, n_accepted, token in [(never, 0, 1), (always, 1, 0)]:
        rows = torch.stack([target, target])
        verdict = impl.rejection.reject(tokens, draft_probs, rows, randomness)
        assert (verdict.n_accepted, verdict.next_token) == (n_accepted, token)


@given(rows=tables(3), seed=st.integers(0, 2**32))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_the_target_forbids_is_ever_committed(
    impl: ModuleType, dtype: torch.dtype, rows: Tables, seed: int
) -> None:
    """In float32 too, where rounding leaves rows that do not quite sum to 1."""
    narrow = Tables([(one.to(dtype), two.to(dtype)) for one, two in rows.pairs])
    randomness = Seeded(seed)
    committed = block(impl.rejection.reject, narrow, 3, randomness)
    for i, token in enumerate(committed):
        assert narrow.target(tuple(committed[:i]))[token] > 0


# --------------------------------------------------- independent draws, by statistics

FOUR_TARGET, FOUR_DRAFT = row(0.35, 0.25, 0.25, 0.15), row(0.1, 0.15, 0.05, 0.7)
FOUR_REUSED = [0.360, 0.216, 0.274, 0.150]  # what one noise for both draws gives
N_DRAWS = 12_000


def reused_noise(seed: int, n: int) -> list[int]:
    """Draft and replacement by the maximum of log-probability + the same Gumbel noise.

    The mistake of vLLM pull request 47386, vectorised over n rounds.
    """
    generator = np.random.default_rng(seed)
    target, draft = FOUR_TARGET.numpy(), FOUR_DRAFT.numpy()
    noise = generator.gumbel(size=(n, 4))
    tokens = (np.log(draft) + noise).argmax(axis=1)
    refused = generator.random(n) >= (target / draft)[tokens]
    with np.errstate(divide="ignore"):
        rest = np.log(np.maximum(target - draft, 0))
    replaced = (rest + noise).argmax(axis=1)
    return np.bincount(np.where(refused, replaced, tokens), minlength=4).tolist()


def test_draft_acceptance_and_replacement_are_independent_draws(
    impl: ModuleType,
) -> None:
    """The G test's false alarms are one in a million; it finds the mistake below (an
    expected statistic of 88, the limit is 33) all but surely."""
    randomness = impl.randomness.Seeded(20_230_202)
    rows, declared = torch.stack([FOUR_TARGET, FOUR_TARGET]), FOUR_DRAFT[None]
    counts = [0] * 4
    for _ in range(N_DRAWS):
        tokens = torch.tensor([randomness.sample(FOUR_DRAFT)])
        verdict = impl.rejection.reject(tokens, declared, rows, randomness)
        counts[first_token(verdict, tokens)[0]] += 1
    assert g_statistic(counts, FOUR_TARGET.tolist()) < g_limit(FOUR_TARGET.tolist())


def test_reusing_the_drafts_noise_is_found_by_the_same_test() -> None:
    many = reused_noise(seed=1, n=400_000)
    assert [count / 400_000 for count in many] == pytest.approx(FOUR_REUSED, abs=4e-3)
    counts = reused_noise(seed=2, n=N_DRAWS)
    assert g_statistic(counts, FOUR_TARGET.tolist()) > g_limit(FOUR_TARGET.tolist())

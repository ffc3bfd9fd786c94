"""The chain from logits to probabilities: every step, every row, every edge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import assume, given
from torch import Tensor

from minispec.sampling import Sampling

from oracles import naive_probs, naive_scores, naive_share, naive_softmax
from strategies import Chain, chains, distinct_logits, id_sequences, logit_rows

chain = pytest.mark.exercise1
same = partial(torch.testing.assert_close, rtol=0, atol=1e-12)  # in float64
PLAIN = Sampling()


def doubles(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def run(
    impl: ModuleType,
    logits: Sequence[float],
    sampling: Sampling,
    history: Sequence[int] = (0,),
    dtype: torch.dtype = torch.float64,
) -> Tensor:  # -> [V]
    """The chain on one row."""
    row = torch.tensor([list(logits)], dtype=dtype)
    return impl.sampling.logits_to_probs(row, sampling, torch.tensor(history))[0]


def expected(logits: Sequence[float], sampling: Sampling, history: list[int]) -> Tensor:
    return doubles(naive_probs(logits, sampling, history))


def clear_cut(one: Chain) -> bool:
    """No row is without a token, and no token within rounding of a threshold."""
    for i, logits in enumerate(one.logits):
        if max(naive_scores(logits, one.sampling, one.before(i))) == -math.inf:
            return False
        supports = set()
        for nudge in (1 - 1e-9, 1 + 1e-9):
            moved = one.sampling
            if moved.top_p < 1:
                moved = replace(moved, top_p=moved.top_p * nudge)
            moved = replace(moved, min_p=moved.min_p * nudge)
            probs = naive_probs(logits, moved, one.before(i))
            supports.add(tuple(prob > 0 for prob in probs))
        if len(supports) > 1:
            return False
    return True


# ------------------------------------------------------------------- the whole chain


@chain
@given(one=chains())
def test_each_row_is_the_chain_spelled_out(impl: ModuleType, one: Chain) -> None:
    assume(clear_cut(one))
    logits = torch.tensor(one.logits, dtype=torch.float64)
    kept = logits.clone()
    history = torch.tensor(one.history)
    probs = impl.sampling.logits_to_probs(logits, one.sampling, history)
    rows = [expected(r, one.sampling, one.before(i)) for i, r in enumerate(one.logits)]
    same(probs, torch.stack(rows))
    assert logits.equal(kept), "the logits handed in were changed"
    assert history.tolist() == one.history, "the history handed in was changed"


@chain
@given(one=chains())
def test_rows_together_are_rows_one_by_one_with_a_growing_history(
    impl: ModuleType, one: Chain
) -> None:
    assume(clear_cut(one))
    together = impl.sampling.logits_to_probs(
        torch.tensor(one.logits, dtype=torch.float64),
        one.sampling,
        torch.tensor(one.history),
    )
    alone = [
        run(impl, logits, one.sampling, one.before(i))
        for i, logits in enumerate(one.logits)
    ]
    same(together, torch.stack(alone))


@chain
@given(logits=logit_rows(5))
def test_the_defaults_are_the_softmax(impl: ModuleType, logits: list[float]) -> None:
    softmax = doubles(naive_softmax(logits))
    same(run(impl, logits, PLAIN), softmax)
    same(run(impl, logits, Sampling(min_length=9)), softmax)  # of no EOS


@chain
@given(logits=logit_rows(5), shift=st.integers(-40, 40).map(lambda n: n / 4))
@pytest.mark.parametrize(
    "sampling", [PLAIN, Sampling(0.0), Sampling(0.7, 3), Sampling(1.3, min_p=0.2)]
)
def test_only_differences_of_logits_count(
    impl: ModuleType, sampling: Sampling, logits: list[float], shift: float
) -> None:
    shifted = [logit + shift for logit in logits]
    same(run(impl, shifted, sampling), run(impl, logits, sampling))


@chain
@given(one=chains(), logits=distinct_logits(7), order=st.permutations(range(7)))
def test_names_of_tokens_do_not_matter(
    impl: ModuleType, one: Chain, logits: list[float], order: list[int]
) -> None:
    """Renaming the tokens renames the probabilities (where there are no ties)."""
    history = [token % 7 for token in one.history]
    eos_ids = tuple(token for token in one.sampling.eos_ids if 0 <= token < 7)
    sampling = replace(one.sampling, eos_ids=eos_ids)
    scores = naive_scores(logits, sampling, history)
    assume(len(set(scores) - {-math.inf}) == len(scores) - scores.count(-math.inf))
    assume(clear_cut(Chain([logits], sampling, history)))
    renamed = replace(sampling, eos_ids=tuple(order.index(t) for t in eos_ids))
    probs = run(impl, logits, sampling, history)
    moved = [logits[token] for token in order]
    names = [order.index(token) for token in history]
    same(run(impl, moved, renamed, names), probs[order])


@chain
def test_each_step_works_on_what_the_one_before_left(impl: ModuleType) -> None:
    logits = [math.log(p) for p in (0.5, 0.25, 0.125, 0.125)]
    # top-2 makes (2/3, 1/3), so the first token alone has the mass of 0.6
    probs = run(impl, logits, Sampling(top_k=2, top_p=0.6))
    assert probs.tolist() == [1, 0, 0, 0]
    # at temperature 1/2: (16, 4, 1, 1) / 22, so the first two hold 0.9
    probs = run(impl, logits, Sampling(temperature=0.5, top_p=0.9))
    same(probs, torch.tensor([0.8, 0.2, 0, 0], dtype=torch.float64))
    # halving the positive logits of tokens seen comes before the temperature
    probs = run(impl, [4.0, 3.0], Sampling(0.5, repetition_penalty=2), [0])
    same(probs, doubles(naive_softmax([4.0, 6.0])))


# ----------------------------------------------------------------------- temperature


@chain
@given(logits=logit_rows(6))
def test_greedy_and_top_1_are_the_first_of_the_highest(
    impl: ModuleType, logits: list[float]
) -> None:
    best = logits.index(max(logits))
    one_hot = [float(token == best) for token in range(6)]
    assert run(impl, logits, Sampling(temperature=0)).tolist() == one_hot
    assert run(impl, logits, Sampling(top_k=1)).tolist() == one_hot
    assert run(impl, logits, Sampling(0.0, 3, 0.5, 0.1)).tolist() == one_hot


@chain
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("temperature", [1e-30, 1e-12, 1e-3])
@given(logits=logit_rows(6))
def test_a_temperature_near_zero_is_greedy_with_shared_ties(
    impl: ModuleType, dtype: torch.dtype, temperature: float, logits: list[float]
) -> None:
    probs = run(impl, logits, Sampling(temperature), dtype=dtype).double()
    best = [float(logit == max(logits)) for logit in logits]
    same(probs, doubles(naive_share(best, range(6))), atol=1e-7)


@chain
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(logits=logit_rows(6))
def test_a_huge_temperature_is_flat(
    impl: ModuleType, dtype: torch.dtype, logits: list[float]
) -> None:
    probs = run(impl, logits, Sampling(1e30), dtype=dtype).double()
    possible = [float(logit > -math.inf) for logit in logits]
    same(probs, doubles(naive_share(possible, range(6))), atol=1e-7)


@chain
@given(logits=distinct_logits(5), temperature=st.floats(0.1, 10))
def test_log_ratios_are_differences_over_temperature(
    impl: ModuleType, logits: list[float], temperature: float
) -> None:
    probs = run(impl, logits, Sampling(temperature))
    row = torch.tensor(logits, dtype=torch.float64)
    differences = (row[:, None] - row) / temperature
    same((probs[:, None] / probs).log(), differences, atol=1e-9)


# ------------------------------------------------------------------------ truncation


@chain
@given(logits=logit_rows(6), k=st.integers(1, 9))
def test_top_k_keeps_exactly_k_and_of_equals_the_lower_ids(
    impl: ModuleType, logits: list[float], k: int
) -> None:
    probs = run(impl, logits, Sampling(top_k=k))
    ranked = sorted(range(6), key=lambda token: (-logits[token], token))
    same(probs, doubles(naive_share(naive_softmax(logits), ranked[:k])))
    n_possible = sum(logit > -math.inf for logit in logits)
    assert int((probs > 0).sum()) == min(k, n_possible)


@chain
@given(logits=logit_rows(6), mass=st.floats(0.02, 0.999))
def test_top_p_keeps_the_fewest_that_reach_the_mass(
    impl: ModuleType, logits: list[float], mass: float
) -> None:
    full = doubles(naive_softmax(logits))
    probs = run(impl, logits, Sampling(top_p=mass))
    kept = probs > 0
    assert full[kept].sum() >= mass - 1e-12
    assert full[kept].sum() - full[kept].min() < mass + 1e-12, "one too many"
    if not kept.all():
        assert full[kept].min() >= full[~kept].max()
    same(probs, full.where(kept, 0.0) / full[kept].sum())


@chain
@given(logits=logit_rows(6), fraction=st.floats(0.01, 1.0))
def test_min_p_keeps_what_reaches_a_fraction_of_the_highest(
    impl: ModuleType, logits: list[float], fraction: float
) -> None:
    full = doubles(naive_softmax(logits))
    threshold = fraction * full.max()
    assume(not torch.isclose(full, threshold, rtol=1e-9).any() or fraction == 1)
    probs = run(impl, logits, Sampling(min_p=fraction))
    kept = full >= threshold
    assert kept.tolist() == (probs > 0).tolist()
    same(probs, full.where(kept, 0.0) / full[kept].sum())


@chain
@pytest.mark.parametrize(
    "sampling, n_kept",
    [
        (Sampling(top_k=3), 3),
        (Sampling(top_k=8), 8),
        (Sampling(top_k=9), 8),
        (Sampling(top_p=0.5), 4),  # exactly reached: nothing more
        (Sampling(top_p=0.501), 5),
        (Sampling(top_p=0.001), 1),
        (Sampling(min_p=1.0), 8),  # all are the highest
        (Sampling(temperature=0), 1),
    ],
)
def test_among_equals_the_lower_ids_stay(
    impl: ModuleType, sampling: Sampling, n_kept: int
) -> None:
    probs = run(impl, [0.5] * 8, sampling)
    wanted = [1 / n_kept if token < n_kept else 0.0 for token in range(8)]
    same(probs, doubles(wanted))


@chain
@given(
    logits=st.lists(st.integers(0, 2).map(float), min_size=40, max_size=70),
    data=st.data(),
)
def test_ties_are_settled_in_long_rows_too(
    impl: ModuleType, logits: list[float], data: st.DataObject
) -> None:
    """A sort of a few numbers keeps the order of equals by accident, of many it does
    so only when asked to. Both truncations are told to keep the same k tokens."""
    k = data.draw(st.integers(1, len(logits)), label="k")
    ranked = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    full = naive_softmax(logits)
    wanted = doubles(naive_share(full, ranked[:k]))
    same(run(impl, logits, Sampling(top_k=k)), wanted)
    short_of_k = sum(full[token] for token in ranked[:k]) - full[ranked[k - 1]] / 2
    same(run(impl, logits, Sampling(top_p=short_of_k)), wanted)


@given(logits=logit_rows(7), temperature=st.sampled_from([0.3, 1.0, 7.0]))
def test_steps_that_are_off_do_not_even_round(
    impl: ModuleType, logits: list[float], temperature: float
) -> None:
    """Not so much as a division by a sum of 1."""
    row = torch.tensor([logits], dtype=torch.float64)
    softmax = ((row - row.max()) / temperature).softmax(-1)[0]
    for off in (Sampling(temperature), Sampling(temperature, top_k=7)):
        assert torch.equal(run(impl, logits, off), softmax)


# ---------------------------------------------------------------------- looking back


@chain
@given(
    logits=logit_rows(4),
    history=id_sequences(4, 1, 4),
    penalty=st.floats(0.5, 3),
    times=st.integers(2, 4),
)
def test_a_token_is_penalised_once_however_often_it_occurred(
    impl: ModuleType,
    logits: list[float],
    history: list[int],
    penalty: float,
    times: int,
) -> None:
    sampling = Sampling(repetition_penalty=penalty)
    once = run(impl, logits, sampling, history)
    same(run(impl, logits, sampling, history * times), once)
    same(once, expected(logits, sampling, history))


@chain
def test_the_penalty_of_row_i_knows_the_first_i_drafts_only(impl: ModuleType) -> None:
    """Prompt 0, drafts 1 then 2: a seen token's logit falls from 2 to 1."""
    probs = impl.sampling.logits_to_probs(
        torch.full((3, 4), 2.0, dtype=torch.float64),
        Sampling(repetition_penalty=2.0),
        torch.tensor([0, 1, 2]),
    )
    seen = [[1, 2, 2, 2], [1, 1, 2, 2], [1, 1, 1, 2]]
    rows = [naive_softmax([float(score) for score in row]) for row in seen]
    same(probs, torch.tensor(rows, dtype=torch.float64))


def test_looking_back_stays_on_the_device_of_the_scores(impl: ModuleType) -> None:
    """The device `meta` has shapes and no numbers, and mixes with no other."""
    scores = torch.zeros(2, 3, device="meta")
    history = torch.zeros(4, dtype=torch.long, device="meta")
    penalised = impl.sampling.penalize_repeats(scores, history, 2.0)
    assert penalised.device == scores.device and penalised.shape == (2, 3)


@chain
@given(one=chains(), eos_ids=st.lists(st.integers(-3, 10), max_size=3))
def test_early_eos_is_masked_in_exactly_the_right_rows(
    impl: ModuleType, one: Chain, eos_ids: list[int]
) -> None:
    """Ids that no token has are harmless."""
    V = len(one.logits[0])
    allowed = [token for token in range(V) if token not in eos_ids]
    for row in one.logits:
        assume(any(row[token] > -math.inf for token in allowed))
    probs = impl.sampling.logits_to_probs(
        torch.tensor(one.logits, dtype=torch.float64),
        Sampling(min_length=one.sampling.min_length, eos_ids=tuple(eos_ids)),
        torch.tensor(one.history),
    )
    for i, row in enumerate(one.logits):
        early = len(one.before(i)) < one.sampling.min_length
        full = naive_softmax(row)
        wanted = naive_share(full, allowed) if early else full
        same(probs[i], doubles(wanted))


@chain
def test_minimum_new_tokens_count_from_the_end_of_the_prompt(impl: ModuleType) -> None:
    sampling = Sampling(eos_ids=(1,)).with_min_new_tokens(prompt_length=3, n=2)
    logits = torch.zeros(4, 2)  # a prompt of 3 and 3 drafts
    probs = impl.sampling.logits_to_probs(logits, sampling, torch.zeros(6).long())
    assert probs[:, 1].tolist() == [0, 0, 0.5, 0.5]


# ----------------------------------------------------------------------- bad numbers


@chain
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "bad", [[math.nan, 0.0], [0.0, math.inf], [-math.inf, -math.inf]]
)
@given(row=st.integers(0, 2))
def test_a_row_without_a_distribution_is_an_error(
    impl: ModuleType, bad: list[float], temperature: float, row: int
) -> None:
    logits = torch.zeros(3, 2)
    logits[row] = torch.tensor(bad)
    with pytest.raises(ValueError, match=r"NaN.*\+inf.*-inf"):
        history = torch.tensor([0, 0, 0])
        impl.sampling.logits_to_probs(logits, Sampling(temperature), history)


@chain
def test_forbidding_every_token_is_an_error(impl: ModuleType) -> None:
    with pytest.raises(ValueError, match="min_length"):
        run(impl, [0.0, 1.0], Sampling(min_length=5, eos_ids=(0, 1)))


@chain
@pytest.mark.parametrize(
    "dtype, wide",
    [
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
@pytest.mark.parametrize("sampling", [PLAIN, Sampling(0.0), Sampling(0.7, 5, 0.9, 0.1)])
@given(logits=distinct_logits(6))
def test_probabilities_are_float32_or_wider(
    impl: ModuleType,
    sampling: Sampling,
    dtype: torch.dtype,
    wide: torch.dtype,
    logits: list[float],
) -> None:
    """Quarters below 64 are exact in every type: the rounding can only be ours."""
    assume(clear_cut(Chain([logits], sampling, [0])))
    probs = run(impl, logits, sampling, dtype=dtype)
    assert probs.dtype == wide
    same(probs.double(), expected(logits, sampling, [0]), atol=1e-6)


# ------------------------------------------------------------------------ the request


@pytest.mark.parametrize(
    "field, allowed, values",
    [
        ("temperature", "0 or from 1e-30 to 1e30", [-1.0, 1e-46, 1e300]),
        ("temperature", "0 or from 1e-30 to 1e30", [math.nan, math.inf]),
        ("top_k", "at least 1", [0, -3]),
        ("top_p", "above 0 and at most 1", [0.0, 1.5, math.nan]),
        ("min_p", "between 0 and 1", [-0.1, 1.1, math.nan]),
        ("repetition_penalty", "above 0 and finite", [0.0, -2.0, math.nan, math.inf]),
    ],
)
def test_bad_fields_are_refused(
    impl: ModuleType, field: str, allowed: str, values: list[float]
) -> None:
    for value in values:
        with pytest.raises(ValueError) as error:
            impl.sampling.Sampling(**{field: value})
        assert str(error.value) == f"{field} must be {allowed}, got {value}"


def test_the_ends_of_every_range_are_allowed(impl: ModuleType) -> None:
    impl.sampling.Sampling(0.0, 1, 1.0, 0.0, 0.01)
    impl.sampling.Sampling(temperature=1e30, top_p=1e-9, min_p=1.0)
    impl.sampling.Sampling(temperature=1e-30, repetition_penalty=50.0)


# --------------------------------------------------------- another's processors agree


@pytest.fixture(scope="module")
def processors() -> Any:
    pytest.importorskip("transformers")
    from transformers.generation import logits_process

    return logits_process


def theirs(processors: Any, sampling: Sampling) -> Any:
    """The same chain, in the order in which that package builds it."""
    eos_ids = [token for token in sampling.eos_ids if token >= 0]
    steps = processors.LogitsProcessorList()
    if sampling.repetition_penalty != 1:
        penalty = sampling.repetition_penalty
        steps.append(processors.RepetitionPenaltyLogitsProcessor(penalty))
    if sampling.min_length and eos_ids:
        length = sampling.min_length
        steps.append(processors.MinLengthLogitsProcessor(length, eos_ids))
    steps.append(processors.TemperatureLogitsWarper(sampling.temperature))
    if sampling.top_k:
        steps.append(processors.TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        steps.append(processors.TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        steps.append(processors.MinPLogitsWarper(sampling.min_p))
    return steps


@chain
@pytest.mark.parametrize(
    "only",
    [
        {"repetition_penalty"},
        {"min_length", "eos_ids"},
        {"temperature"},
        {"top_k"},
        {"top_p"},
        {"min_p"},
        set(Sampling.__dataclass_fields__),
    ],
    ids=lambda only: " ".join(sorted(only)) if len(only) < 3 else "all",
)
@given(one=chains(), logits=distinct_logits(7))
def test_agrees_with_transformers(
    impl: ModuleType, processors: Any, only: set[str], one: Chain, logits: list[float]
) -> None:
    fields = {name: getattr(one.sampling, name) for name in only}
    sampling = replace(PLAIN, **fields)
    assume(sampling.temperature > 0)
    scores = naive_scores(logits, sampling, one.history)
    assume(len(set(scores)) == len(scores))  # of equals they keep either or all
    assume(clear_cut(Chain([logits], sampling, one.history)))
    row = torch.tensor([logits], dtype=torch.float64)
    history = torch.tensor([one.history])
    probs = theirs(processors, sampling)(history, row.clone()).softmax(dim=-1)[0]
    same(run(impl, logits, sampling, one.history), probs)

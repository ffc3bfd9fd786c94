"""The chain from logits to probabilities: every step, every row, every edge."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from torch import Tensor

from minispec import Sampling
from minispec.core.coupling import coupled
from minispec.core.sampling import (
    keep_top_k, keep_top_p, logits_to_probs, penalize_repeats
)

from support.checks import agree, value_error
from support.oracles import naive_probs, naive_scores
from support.strategies import Chain, chains, samplings

exercise, MIN_P = pytest.mark.exercise1, Sampling(min_p=0.5)
DISTINCT = st.permutations(range(-24, 24)).map(lambda n: [q / 4 for q in n[:6]])


def doubles(values: Sequence[Any]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def run(
    logits: Sequence[float],
    sampling: Sampling,
    history: Sequence[int] = (0,),
    dtype: torch.dtype = torch.float64,
) -> Tensor:  # -> [V]
    """The chain on one row."""
    row = torch.tensor([list(logits)], dtype=dtype)
    return logits_to_probs(row, sampling, torch.tensor(history))[0]


def is_clear(one: Chain) -> bool:
    """No row is without a token, and no token within rounding of a threshold."""
    for i, logits in enumerate(one.logits):
        if max(naive_scores(logits, one.sampling, one.before(i))) == -math.inf:
            return False
        supports = set()
        for nudge in (1 - 1e-9, 1 + 1e-9):
            p, min_p = one.sampling.top_p, min(1.0, one.sampling.min_p * nudge)
            moved = replace(one.sampling, top_p=p * nudge if p < 1 else p, min_p=min_p)
            probs = naive_probs(logits, moved, one.before(i))
            supports.add(tuple(prob > 0 for prob in probs))
        if len(supports) > 1:
            return False
    return True


# ------------------------------------------------------------------- the whole chain


@exercise
@settings(max_examples=100)
@given(one=chains())
def test_each_row_is_the_chain_spelled_out(one: Chain) -> None:
    """Row i looks back at the text and at the first i drafts."""
    assume(is_clear(one))
    logits, history = doubles(one.logits), torch.tensor(one.history)
    kept = logits.clone(), history.clone()
    rows = enumerate(one.logits)
    expected = [naive_probs(row, one.sampling, one.before(i)) for i, row in rows]
    probs = logits_to_probs(logits, one.sampling, history)
    broke = "The rows are not what the chain gives, step by step."
    agree(probs, doubles(expected), broke, **one._asdict())
    broke = "The logits or the history handed in were changed."
    agree((logits.tolist(), history.tolist()), tuple(k.tolist() for k in kept), broke)


@exercise
@pytest.mark.parametrize(
    "sampling",
    [Sampling(0.5), Sampling(0), Sampling(top_k=2), Sampling(top_p=0.6), MIN_P],
)
def test_every_step_reaches_every_row(sampling: Sampling) -> None:
    rows = [[0.0, 1.0, 1.5], [1.0, 0.0, 0.5], [2.0, 2.5, 0.0]]
    probs = logits_to_probs(doubles(rows), sampling, torch.tensor([0, 1, 2]))
    expected = doubles([naive_probs(row, sampling, []) for row in rows])
    agree(probs, expected, "A row was left out.", logits=rows, sampling=sampling)


HALVING, EQUALS = [0.5, 0.25, 0.125, 0.125], [0.125] * 8


def first(n: int) -> list[float]:
    return [1 / n] * n + [0.0] * (8 - n)


@exercise
@pytest.mark.parametrize(
    "weights, sampling, expected",
    [
        # top-2 makes (2/3, 1/3), so the first token alone has the mass of 0.6
        (HALVING, Sampling(top_k=2, top_p=0.6), [1, 0, 0, 0]),
        # at temperature 1/2: (16, 4, 1, 1) / 22, so the first two hold 0.9
        (HALVING, Sampling(0.5, top_p=0.9), [0.8, 0.2, 0, 0]),
        (HALVING, Sampling(1e-30), [1, 0, 0, 0]),
        (EQUALS, Sampling(1e-30), first(8)),
        (HALVING, Sampling(1e30), [0.25] * 4),
        # of equals the lower ids stay
        (EQUALS, Sampling(temperature=0), first(1)),
        (EQUALS, Sampling(top_k=3), first(3)),
        (EQUALS, Sampling(top_k=9), first(8)),
        (EQUALS, Sampling(top_p=0.5), first(4)),  # exactly reached: nothing more
        (EQUALS, Sampling(top_p=0.501), first(5)),
        (EQUALS, Sampling(top_p=1e-320), first(1)),
        (EQUALS, Sampling(min_p=1.0), first(8)),  # all are the highest
        (HALVING, Sampling(min_p=0.49), [2 / 3, 1 / 3, 0, 0]),
    ],
)
def test_by_hand(
    weights: list[float], sampling: Sampling, expected: list[float]
) -> None:
    logits = [math.log(weight) for weight in weights]
    broke = "The order is temperature, top-k, top-p, min-p; rows sum to 1 after each."
    for dtype in (torch.float32, torch.float64):
        rows = torch.tensor([logits, logits], dtype=dtype)  # each alike
        got = logits_to_probs(rows, sampling, torch.tensor([0, 0])).double()
        wanted = doubles([expected, expected])
        agree(got, wanted, broke, 1e-6, weights=weights, sampling=sampling)


@exercise
def test_large_scores_over_a_tiny_temperature_do_not_overflow() -> None:
    logits, expected = [1e9, 2e9, 0.0], torch.tensor([0.0, 1.0, 0.0])
    got = run(logits, Sampling(temperature=1e-30), dtype=torch.float32)
    broke = "1e9 / 1e-30 and 2e9 / 1e-30 are infinite in float32, their order is clear."
    agree(got, expected, broke, logits=logits, temperature=1e-30)


@exercise
def test_a_tiny_temperature_does_not_overflow() -> None:
    got = run([1e9, 1e9, 0.0], Sampling(1e-30), dtype=torch.float32)
    expected = torch.tensor([0.5, 0.5, 0.0])
    agree(got, expected, "1e9 / 1e-30 is infinite in float32, their difference is 0.")


@exercise
@given(st.lists(st.integers(1, 3), min_size=40, max_size=70), st.data())
def test_top_k_and_top_p_keep_the_first_k_and_of_equals_the_lower_ids(
    weights: list[int], data: Any
) -> None:
    """A sort of a few numbers keeps the order of equals by accident, of many it does
    so only when asked to. Both truncations are told to keep the same k tokens."""
    k = data.draw(st.integers(1, len(weights)), label="k")
    row = doubles(weights) / sum(weights)
    ranked = sorted(range(len(row)), key=lambda token: (-row[token], token))
    kept = torch.zeros_like(row)
    kept[ranked[:k]] = row[ranked[:k]]
    short_of_k = float(kept.sum() - row[ranked[k - 1]] / 2)
    for found in (keep_top_k(row[None], k), keep_top_p(row[None], short_of_k)):
        broke = f"{k} tokens should stay as they are, of equals the lower ids."
        agree(found[0], kept, broke, weights=weights)


@pytest.mark.parametrize("dtype, n_allowed", [(torch.float64, 40), (torch.float32, 0)])
def test_top_p_at_exact_ties_is_left_to_rounding_almost_never(
    dtype: torch.dtype, n_allowed: int
) -> None:
    """Rows and masses in multiples of .05, where whole numbers tell what is right.

    The usual `cumsum - ranked < mass` is wrong in about 80 and 120 of these rows.
    """
    generator, n_wrong = torch.Generator().manual_seed(0), 0
    for _ in range(4_000):
        drawn = torch.randint(6, (20,), generator=generator)
        twentieths = drawn.bincount(minlength=6).sort(descending=True).values
        mass = int(torch.randint(1, 20, (), generator=generator))
        fewest = int((twentieths.cumsum(0) - twentieths < mass).sum())
        kept = keep_top_p((twentieths.double() / 20).to(dtype)[None], mass / 20) > 0
        off = int(kept.sum()) - min(fewest, int((twentieths > 0).sum()))
        assert abs(off) <= 1
        n_wrong += abs(off)
    assert n_wrong <= n_allowed


# ---------------------------------------------------------------------- looking back


@exercise
def test_a_chain_that_cuts_nothing_keeps_what_rounding_would_lose() -> None:
    """1 + 1e-27 is 1 in float64: top-p 1 must not be taken for a cut there."""
    logits = torch.tensor([[0.0, -62.0]], dtype=torch.float64)
    probs = logits_to_probs(logits, Sampling(), torch.tensor([0]))
    agree(bool(probs[0, 1] > 0), True, "A token was cut off.", logits=logits, p=probs)


def test_the_penalty_of_row_i_knows_the_first_i_drafts_only() -> None:
    """Prompt 0 0, drafts 1 then 2: the odds of a token seen fall from 1 to e ** -1."""
    logits, history = torch.full((3, 4), 2.0).double(), torch.tensor([0, 0, 1, 2])
    probs = logits_to_probs(logits, Sampling(repetition_penalty=2.0), history)
    seen = doubles([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]])
    odds = probs / probs[:, 3:]  # token 3 is never seen
    agree(odds, (-seen).exp(), "Row i saw other drafts than the first i.")


def test_looking_back_stays_on_the_device_of_the_scores() -> None:
    """The device `meta` has shapes and no numbers, and mixes with no other."""
    scores = torch.zeros(2, 3, device="meta")
    history = torch.zeros(4, dtype=torch.long, device="meta")
    assert penalize_repeats(scores, history, 2.0).device == scores.device


@exercise
def test_minimum_new_tokens_count_from_the_end_of_the_prompt() -> None:
    """A prompt of 3 and 3 drafts; ids that no token has are harmless."""
    sampling = Sampling(eos_ids=(1, 5)).with_min_new_tokens(prompt_length=3, n=2)
    logits = torch.zeros(4, 2)
    probs = logits_to_probs(logits, sampling, torch.zeros(6).long())
    expected = torch.tensor([0, 0, 0.5, 0.5])
    broke = "EOS is possible from the third new token on."
    agree(probs[:, 1], expected, broke, sampling=sampling, history=6)
    agree(logits, torch.zeros(4, 2), "The logits handed in were changed.")


# ------------------------------------------------------------------------- numbers


@exercise
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [[math.nan, 0], [0, math.inf], [-math.inf, -math.inf]])
def test_a_row_without_a_distribution_is_an_error(
    bad: list[float], temperature: float
) -> None:
    logits, history = torch.zeros(3, 2), torch.tensor([0, 0, 0])
    logits[1] = torch.tensor(bad)
    with value_error(logits=logits, temperature=temperature):
        logits_to_probs(logits, Sampling(temperature), history)


@exercise
def test_forbidding_every_token_is_an_error() -> None:
    sampling = Sampling(min_length=5, eos_ids=(0, 1))
    with value_error(logits=[0.0, 1.0], sampling=sampling, history=[0]):
        run([0.0, 1.0], sampling)


def test_the_error_says_what_to_look_at() -> None:
    with pytest.raises(ValueError, match=r"NaN.*\+inf.*-inf.*min_length"):
        run([0.0, math.nan], Sampling())


@exercise
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("sampling", [Sampling(0.0), Sampling(0.7, 5, 0.9, 0.1)])
def test_probabilities_are_float32_or_wider(
    sampling: Sampling, dtype: torch.dtype
) -> None:
    """These quarters are exact in every type: the rounding can only be ours."""
    logits = [1.25, -0.5, 3.0, 2.75, 0.0, 2.5]
    probs = run(logits, sampling, dtype=dtype)
    wide = probs.dtype == torch.promote_types(probs.dtype, torch.float32)
    agree(wide, True, "Probabilities are float32 or wider.", type=probs.dtype)
    expected = doubles(naive_probs(logits, sampling, [0]))
    agree(probs.double(), expected, "Too coarse.", 1e-6, logits=logits, given=dtype)


# ------------------------------------------------------------------------ the request


@pytest.mark.parametrize(
    "field, says, values",
    [
        ("temperature", "be 0 or from 1e-30 to 1e30", [-1.0, 1e-46, 1e300, math.nan]),
        ("top_k", "be at least 1", [0, -3]),
        ("temperature", "be a number", ["1", None, torch.tensor(1.0)]),
        ("repetition_penalty", "be a number", ["2", None, 1j]),
        ("top_k", "be a whole number", [2.0, "2"]),
        ("top_p", "be a number", [None, torch.ones(2)]),
        ("min_p", "be a number", ["0"]),
        ("top_p", "be above 0 and at most 1", [0.0, 1.5, math.nan]),
        ("min_p", "be between 0 and 1", [-0.1, 1.1, math.nan]),
        ("repetition_penalty", "be from 1e-30 to 1e30", [0.0, -2.0, 1e-300, math.inf]),
        ("min_length", "be at least 0", [-1]),
        ("min_length", "be a whole number", [1.5]),
        ("eos_ids", r"be ids, such as \(2,\)", [4, None, torch.tensor(4)]),
    ],
)
def test_a_field_that_cannot_be_right_is_named(
    field: str, says: str, values: list[Any]
) -> None:
    for value in values:
        with pytest.raises((ValueError, TypeError)) as error:
            Sampling(**{field: value})
        assert re.match(f"{field} must {says}, got ", str(error.value))


@pytest.mark.parametrize("ids", ["\n", [1.5], [-1]])
def test_an_eos_id_that_cannot_be_right_is_named(ids: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="^an EOS id must be .*, got "):
        Sampling(eos_ids=ids)


def test_whole_numbers_of_other_packages_and_the_ends_of_ranges_are_fine() -> None:
    assert Sampling(eos_ids=torch.tensor([3, 1])).eos_ids == (3, 1)
    assert Sampling(eos_ids={np.int64(3)}) == Sampling(eos_ids=[3])
    plain = run([1.0, 3.0, 2.0], Sampling(top_k=2, min_length=1))
    for two in (np.int32(2), torch.tensor(2)):
        assert run([1.0, 3.0, 2.0], Sampling(top_k=two, min_length=two)).equal(plain)
        assert hash(Sampling(np.float32(0.5), two)) == hash(Sampling(0.5, 2))
    one = Sampling(min_length=np.uint8(200))
    assert one.with_min_new_tokens(np.uint8(200), 100).min_length == 300
    Sampling(0.0, 1, 1.0, 0.0, 0.01), Sampling(1e30, top_p=1e-9, min_p=1.0)
    for penalty in (1e-30, 1e30):
        extreme = Sampling(1e-30, repetition_penalty=penalty)
        probs = run([3.0, 0.0, -2.0], extreme, range(3), torch.float32)
        assert probs.sum() == 1 and probs[0] > 0.9


@given(logits=DISTINCT, one=samplings(6), history=st.lists(st.integers(0, 5)))
def test_agrees_with_transformers(
    logits: list[float], one: Sampling, history: list[int]
) -> None:
    """The same chain, in the order in which that package builds it."""
    pytest.importorskip("transformers")
    from transformers.generation import logits_process as theirs

    history, eos = [*history, 0], list(one.eos_ids)
    assume(one.temperature > 0 and is_clear(Chain([logits], one, history)))
    assume(len(set(naive_scores(logits, one, history))) == 6)  # ties differ there
    steps = {
        theirs.RepetitionPenaltyLogitsProcessor: [one.repetition_penalty],
        theirs.MinLengthLogitsProcessor: [one.min_length, eos] if eos else [],
        theirs.TemperatureLogitsWarper: [one.temperature],
        theirs.TopKLogitsWarper: [one.top_k] if one.top_k else [],
        theirs.TopPLogitsWarper: [one.top_p] if one.top_p < 1 else [],
        theirs.MinPLogitsWarper: [one.min_p] if one.min_p else [],
    }
    row, ids = doubles([logits]), torch.tensor([history])
    for step, arguments in steps.items():
        row = step(*arguments)(ids, row) if arguments else row
    expected = row.softmax(dim=-1)[0]
    agree(run(logits, one, history), expected, "transformers says otherwise.")


@exercise
def test_the_last_step_is_the_coupling() -> None:
    """Where a seed is given: row i with the noise of its own position."""
    logits = doubles([[0.0, 1.0, 1.5], [1.0, 0.0, 0.5], [2.0, 2.5, 0.0]])
    history, plain = torch.tensor([0, 1, 2, 1, 0]), Sampling(0.7, top_k=2)
    for seed in range(9):
        seeded = replace(plain, noise_seed=seed)
        rows = doubles([naive_probs(row, plain, []) for row in logits.tolist()])
        what = {"logits": logits, "history": history, "sampling": seeded}
        broke = "With a noise_seed, the rows are not coupled(rows, seed, n), n = 3."
        got = logits_to_probs(logits, seeded, history)
        agree(got, coupled(rows, seed, n=3), broke, **what)

"""The baseline, against the chain rule and a loop that has no cache."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from minispec.exactness import largest_difference, output_law
from minispec.randomness import Seeded
from minispec.sampling import Sampling
from minispec.stopping import Limits

from decoding import (
    Situation,
    next_row,
    samplings,
    situations,
    spy_on_caches,
    spy_on_feeding,
    tiny,
)
from oracles import naive_decode, naive_law

pytestmark = pytest.mark.exercise4

CHAINS = {
    "plain": Sampling(),
    "hot": Sampling(temperature=2.0),
    "greedy": Sampling(temperature=0),
    "top-k": Sampling(top_k=2),
    "top-p": Sampling(0.7, top_p=0.6),
    "min-p": Sampling(min_p=0.4),
    "penalty": Sampling(repetition_penalty=1.9),
    "no early EOS": Sampling(min_length=4, eos_ids=(0,)),
}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize(
    "prompt, n_new, context, eos_ids",
    [([1], 3, 9, (0,)), ([2, 0], 4, 5, ()), ([0, 1, 2], 2, 5, (2, 1)), ([1], 0, 2, ())],
)
def test_its_law_is_the_chain_rule(
    impl: Any,
    chain: str,
    prompt: list[int],
    n_new: int,
    context: int,
    eos_ids: tuple[int, ...],
) -> None:
    target, sampling = tiny(3, 4, context), CHAINS[chain]

    def run(chance: Any) -> tuple[int, ...]:
        ids = torch.tensor(prompt)
        return impl.autoregressive.generate(
            target, ids, n_new, chance, sampling, eos_ids
        ).tokens

    expected = naive_law(
        lambda text: next_row(target, sampling, text).tolist(),
        prompt,
        n_new,
        context,
        eos_ids,
    )
    assert largest_difference(output_law(run), expected) < 1e-12


@given(data=st.data(), seed=st.integers(0, 999))
def test_it_is_the_loop_without_a_cache(impl: Any, data: Any, seed: int) -> None:
    V = data.draw(st.integers(1, 5), label="V")
    context = data.draw(st.integers(1, 10), label="context")
    target = tiny(V, seed, context, n_layer=2)
    ids = st.integers(0, V - 1)
    prompt = data.draw(st.lists(ids, min_size=1, max_size=context), label="prompt")
    n_new = data.draw(st.integers(0, 12), label="n_new")
    eos_ids = data.draw(st.sets(ids, max_size=2), label="eos_ids")
    sampling = data.draw(samplings(V), label="sampling")
    if V <= len(sampling.eos_ids):
        sampling = Sampling()

    found = impl.autoregressive.generate(
        target, torch.tensor(prompt), n_new, Seeded(seed), sampling, eos_ids
    )
    chance = Seeded(seed)
    tokens, reason = naive_decode(
        lambda text: next_row(target, sampling, text),
        chance.sample,
        prompt,
        n_new,
        context,
        eos_ids,
    )
    assert (list(found.tokens), found.finish_reason) == (tokens, reason)
    assert found.target_forwards == len(tokens)


@pytest.mark.parametrize("n", [1, 4])
def test_every_pass_feeds_one_token_and_the_first_the_prompt(
    impl: Any, monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    target = tiny(4, 0)
    fed = spy_on_feeding(monkeypatch, target)
    impl.autoregressive.generate(target, torch.arange(n), 4, Seeded(1))
    assert fed == [n, 1, 1, 1]


def test_only_the_last_row_passes_through_the_head(
    impl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the prompt, too: all else would be logits that nobody reads."""
    target = tiny(4, 0)
    rows = spy_on_feeding(monkeypatch, target, "head")
    impl.autoregressive.generate(target, torch.arange(4), 3, Seeded(1))
    assert rows == [1, 1, 1]


def test_no_graph_is_kept_of_weights_that_can_be_trained(
    impl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tiny(4, 0).requires_grad_(True)
    caches = spy_on_caches(monkeypatch, target)
    impl.autoregressive.generate(target, torch.arange(4), 3, Seeded(1))
    rows = [*caches[0].keys, *caches[0].values]
    assert not any(one.requires_grad for one in rows)


def test_no_step_runs_before_it_is_asked_for(
    impl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tiny(4, 0)
    fed = spy_on_feeding(monkeypatch, target)
    limits = Limits.for_request(2, 9, (), 24)
    steps = impl.autoregressive.autoregressive_steps(
        target, torch.tensor([1, 2]), limits, Seeded(0)
    )
    assert fed == []
    assert [step.finish_reason for step in islice(steps, 3)] == [None] * 3
    assert len(fed) == 3


@given(at=situations(), n_new=st.integers(0, 8), seed=st.integers(0, 99))
def test_the_steps_are_the_text_and_only_the_last_gives_a_reason(
    impl: Any, at: Situation, n_new: int, seed: int
) -> None:
    model, eos_ids = at.model, (1,)
    limits = Limits.for_request(len(at.prefix), n_new, eos_ids, 12)
    steps = list(
        impl.autoregressive.autoregressive_steps(
            model, at.prefix, limits, Seeded(seed), at.sampling
        )
    )
    whole = impl.autoregressive.generate(
        model, at.prefix, n_new, Seeded(seed), at.sampling, eos_ids
    )
    assert all(len(step.committed) == 1 for step in steps)
    assert tuple(step.committed[0] for step in steps) == whole.tokens
    reasons = [step.finish_reason for step in steps]
    assert reasons == ([None] * (len(steps) - 1) + [whole.finish_reason])[: len(steps)]


def test_stale_slots_are_never_read(
    impl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, prompt = tiny(4, 6), torch.tensor([3, 1])
    clean = impl.autoregressive.generate(target, prompt, 9, Seeded(5)).tokens
    caches = spy_on_caches(monkeypatch, target)  # NaN in every free slot
    assert impl.autoregressive.generate(target, prompt, 9, Seeded(5)).tokens == clean
    assert len(caches) == 1


def test_chance_is_the_seeds_alone(impl: Any) -> None:
    target, prompt = tiny(5, 3), torch.tensor([4])

    def text(seed: int) -> tuple[int, ...]:
        return impl.autoregressive.generate(target, prompt, 12, Seeded(seed)).tokens

    states = torch.get_rng_state(), random.getstate()
    assert text(7) == text(7)
    assert len({text(seed) for seed in range(8)}) == 8
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert prompt.tolist() == [4]


@pytest.mark.parametrize(
    "n, n_new, reason", [(3, 0, "length"), (6, 0, "length"), (6, 1, "context")]
)
def test_no_pass_where_there_is_nothing_to_write(
    impl: Any, n: int, n_new: int, reason: str
) -> None:
    target = tiny(3, 0, n_positions=6)
    done = impl.autoregressive.generate(target, torch.arange(n) % 3, n_new, Seeded(0))
    assert (done.tokens, done.finish_reason, done.target_forwards) == ((), reason, 0)


@pytest.mark.parametrize(
    "n, n_new, said",
    [
        (0, 1, "prompt is empty"),
        (7, 1, "prompt has 7 tokens and the target's context holds 6"),
        (2, -1, "max_new_tokens must be 0 or more, got -1"),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    impl: Any, n: int, n_new: int, said: str
) -> None:
    target, prompt = tiny(3, 0, n_positions=6), torch.zeros(n, dtype=torch.long)
    with pytest.raises(ValueError, match=said):
        impl.autoregressive.generate(target, prompt, n_new, Seeded(0))

"""Many texts at once: each comes out as it would alone."""

from __future__ import annotations

from dataclasses import replace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from hypothesis.strategies import DrawFn

from minispec import Generation, ModelDrafter, NgramDrafter, Request, Sampling, Seeded
from minispec import generate, generate_alone
from minispec.batches.drafting import BatchDrafter, BatchModelDrafter, EachAlone
from minispec.batches.speculative import Done, generate_batch
from minispec.core.draft import Drafter, Proposal
from minispec.core.randomness import Randomness
from minispec.core.rejection import Verdict
from minispec.exactness import assert_same_distribution, output_distribution

from support.decoding import tiny
from support.heads import tiny_head
from support.strategies import SEEDS, id_sequences, samplings

V = 4


@st.composite
def request_lists(draw: DrawFn) -> list[Request]:
    """Texts that share nothing but the models."""

    def request() -> Request:
        prompt = torch.tensor(draw(id_sequences(V, 1, 6)))
        n_new, gamma = draw(st.integers(0, 8)), draw(st.integers(1, 4))
        return Request(prompt, n_new, draw(samplings(V)), gamma)

    return [request() for _ in range(draw(st.integers(1, 6)))]


def texts_of(batch: list[Done]) -> list[Generation]:
    assert all(done.error is None for done in batch)
    return [done.generation for done in sorted(batch, key=lambda done: done.index)]


@pytest.mark.parametrize("who", ["other", "alike", "ngram"])
@given(request_lists(), SEEDS, st.integers(1, 4))
def test_each_text_is_its_solo_decode(who, requests, seed, max_rows) -> None:
    """Round for round in float64, with rows refilled, and contexts that end.

    Where the draft is the target, only warmer, most drafts are accepted: then some rows
    feed two tokens and others one.
    """
    target, other = tiny(V, seed, 10), tiny(V, seed + 1, 8)
    draft, warm = (target, Sampling(1.7)) if who == "alike" else (other, None)

    def alone(request: Request) -> Drafter:
        if who == "ngram":
            return NgramDrafter(V)
        return ModelDrafter(draft, warm or request.sampling)

    drafter: BatchDrafter = BatchModelDrafter(draft, warm)
    if who == "ngram":
        drafter = EachAlone(lambda text: alone(text.request))
    chances = [Seeded(seed + i) for i in range(len(requests))]
    batch = list(generate_batch(target, drafter, requests, chances, max_rows))
    assert texts_of(batch) == [
        generate(target, alone(request), request, Seeded(seed + i))
        for i, request in enumerate(requests)
    ]


@pytest.mark.parametrize("n_neighbours", [1, 2])
def test_the_distribution_of_a_row_is_the_targets(n_neighbours: int) -> None:
    """One row goes down every branch of chance; the others decode with seeds."""
    target, draft = tiny(3, 1, 12), tiny(3, 2, 12)
    sampling = Sampling(1.2, eos_ids=(2,))
    row = Request(torch.tensor([0, 1]), 4, sampling, 2)
    neighbours = [
        Request(torch.tensor([1] * (3 * i + 1)), 9 - 5 * i, Sampling(), 3)
        for i in range(n_neighbours)
    ]

    def in_a_batch(chance: Randomness) -> tuple[int, ...]:
        chances = [*(Seeded(i) for i in range(n_neighbours)), chance]
        requests = [*neighbours, row]
        done = generate_batch(target, BatchModelDrafter(draft), requests, chances)
        return texts_of(list(done))[-1].tokens

    expected = output_distribution(lambda c: generate_alone(target, row, c).tokens)
    assert_same_distribution(output_distribution(in_a_batch), expected)


def test_one_drafter_for_two_batches_or_two_rows_is_named() -> None:
    """Each would read what the other left in the cache."""
    target, draft = tiny(), tiny(seed=1)
    requests = [Request(torch.tensor([1, 2]), n_new, gamma=2) for n_new in (1, 9)]
    chances = [Seeded(0), Seeded(1)]
    shared, one = BatchModelDrafter(draft), ModelDrafter(draft)
    first = generate_batch(target, shared, requests, chances)
    next(first), next(generate_batch(target, shared, requests, chances))
    for batch in (
        first,
        generate_batch(target, EachAlone(lambda text: one), requests, chances),
    ):
        with pytest.raises(ValueError, match="has begun another text meanwhile"):
            list(batch)


def test_a_row_that_drafted_nothing_for_long_catches_up() -> None:
    """It then feeds many tokens at once, and its neighbours are padded as far."""
    target, draft = tiny(5, 0, 64, 2), tiny(5, 9, 24)
    requests = [
        Request(torch.tensor([1]), 60, gamma=lambda past: 3 * (len(past) >= 20)),
        Request(torch.tensor([2, 3] * 11), 40, gamma=2),
    ]
    chances = [Seeded(0), Seeded(1)]
    batch = generate_batch(target, BatchModelDrafter(draft), requests, chances, 2)
    assert texts_of(list(batch)) == [
        generate(target, ModelDrafter(draft), request, Seeded(seed))
        for seed, request in enumerate(requests)
    ]


def test_coupled_texts_depend_on_their_own_seed_alone() -> None:
    """Not on their neighbours, the drafter, or the order of the rows."""
    target, draft = tiny(), tiny(seed=1)
    requests = [
        Request(torch.tensor([0, i % 4]), 5 + i, Sampling(noise_seed=i), gamma)
        for i, gamma in enumerate([1, 2, 3, 1, 2, 3])
    ]
    chances = [Seeded(9) for _ in requests]
    batch = generate_batch(target, BatchModelDrafter(draft), requests, chances, 4)
    for done in batch:
        alone = generate_alone(target, requests[done.index], Seeded(0))
        assert done.generation.tokens == alone.tokens


def test_texts_come_as_they_end_and_waiting_ones_take_their_rows() -> None:
    target, draft = tiny(), tiny(seed=1)
    lengths = [9, 1, 1, 1, 1]
    requests = [Request(torch.tensor([0]), n, gamma=1) for n in lengths]
    chances = [Seeded(i) for i in range(5)]
    batch = generate_batch(target, BatchModelDrafter(draft), requests, chances, 2)
    assert [done.index for done in batch] == [1, 2, 3, 4, 0]


def test_a_pass_of_the_target_serves_all_rows(monkeypatch) -> None:
    target, draft = tiny(), tiny(seed=1)
    requests = [Request(torch.tensor([0]), 8, gamma=3) for _ in range(4)]
    passes: list[int] = []
    trunk = target.trunk

    def counted(ids, *rest):
        passes.append(len(ids))
        return trunk(ids, *rest)

    monkeypatch.setattr(target, "trunk", counted)
    chances = [Seeded(i) for i in range(4)]
    drafter = BatchModelDrafter(draft)
    batch = texts_of(list(generate_batch(target, drafter, requests, chances)))
    rounds = sorted((one.target_forwards for one in batch), reverse=True)
    still_going = [sum(n > i for n in rounds) for i in range(rounds[0])]
    assert passes == still_going


def test_what_fails_says_so_and_the_others_go_on() -> None:
    def faulty(tokens, draft_probs, target_probs, randomness) -> Verdict:
        raise ValueError("no verdict")

    target, draft = tiny(V, n_positions=6), tiny(V, seed=1)
    fine = Request(torch.tensor([1, 2]), 4)
    requests = [
        fine,
        replace(fine, prompt=torch.tensor([V])),
        replace(fine, prompt=torch.zeros(9, dtype=torch.long)),
        replace(fine, judge=faulty),
        fine,
    ]
    chances = [Seeded(3) for _ in requests]
    batch = generate_batch(target, BatchModelDrafter(draft), requests, chances, 3)
    by_index = {done.index: done for done in batch}
    failed = {i: str(by_index[i].error) for i in (1, 2, 3)}
    assert "ids must be" in failed[1] and "shorten" in failed[2]
    assert failed[3] == "no verdict"
    expected = generate(target, ModelDrafter(draft), fine, Seeded(3))
    assert by_index[0].generation == by_index[4].generation == expected


def test_wrong_arguments_are_named() -> None:
    target, request = tiny(), Request(torch.tensor([0]), 4)
    drafter = BatchModelDrafter(tiny(seed=1))
    with pytest.raises(ValueError, match="of its own: got 2 and 1"):
        list(generate_batch(target, drafter, [request] * 2, [Seeded(0)]))
    with pytest.raises(ValueError, match="max_rows must be at least 1"):
        list(generate_batch(target, drafter, [request], [Seeded(0)], max_rows=0))

    class TooMany(Drafter):
        def propose(self, prefix, gamma, randomness) -> Proposal:
            return Proposal.certain(prefix.new_zeros(gamma + 1), 4)

    with pytest.raises(ValueError, match="asked for"):
        each = EachAlone(lambda text: TooMany())
        list(generate_batch(target, each, [request], [Seeded(0)]))


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("kind", ["eagle", "medusa", "mtp"])
def test_a_drafter_that_reads_hidden_states_is_turned_away(kind: str, n: int) -> None:
    """A batch keeps none, and a prompt of one token leaves nothing else to notice."""
    target, request = tiny(), Request(torch.zeros(n, dtype=torch.long), 4)
    each = EachAlone(lambda text: tiny_head(kind, target).drafter(target))
    with pytest.raises(ValueError, match="one text at a time"):
        list(generate_batch(target, each, [request], [Seeded(0)]))


def test_no_texts_at_all() -> None:
    assert list(generate_batch(tiny(), BatchModelDrafter(tiny()), [], [])) == []

"""The draft loop: each token with the very distribution it was drawn from."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from minispec.exactness import largest_difference, output_law
from minispec.randomness import Seeded
from minispec.sampling import Sampling

from decoding import (
    Scripted,
    Situation,
    assert_holds,
    next_row,
    poison,
    prefilled,
    same,
    situations,
    spy_on_feeding,
    tiny,
)
from oracles import naive_law

pytestmark = pytest.mark.exercise5


def draft_in(impl: Any, at: Situation, K: int, cache: Any, chance: Any) -> Any:
    return impl.draft.draft(at.model, cache, at.prefix, K, at.sampling, chance)


def longest(at: Situation) -> int:
    """The K that fills the model's context: the last draft is never fed."""
    return at.model.config.n_positions - len(at.prefix) + 1


@given(at=situations(), data=st.data())
def test_each_row_is_the_models_own_after_the_drafts_before_it(
    impl: Any, at: Situation, data: Any
) -> None:
    K = data.draw(st.integers(0, longest(at)), label="K")
    seed = data.draw(st.integers(0, 99), label="seed")
    cache = prefilled(at.model, at.prefix[: at.seen])
    proposal = draft_in(impl, at, K, cache, Seeded(seed))

    tokens, rows = proposal.tokens, proposal.draft_probs
    assert tokens.shape == (K,) and tokens.dtype == torch.int64
    assert rows.shape == (K, at.model.config.vocab_size)
    text = at.prefix.tolist()
    for token, row in zip(tokens.tolist(), rows):
        same(row, next_row(at.model, at.sampling, text))
        assert row[token] > 0
        text.append(token)
    assert cache.length == (len(at.prefix) + K - 1 if K else at.seen)
    assert_holds(cache, at.model, text)


@given(at=situations(), data=st.data())
def test_a_row_is_what_its_token_was_drawn_from_and_no_other_chance_is_used(
    impl: Any, at: Situation, data: Any
) -> None:
    K = data.draw(st.integers(0, longest(at)), label="K")
    forced = [data.draw(st.integers(0, at.model.config.vocab_size - 1))] * K
    chance = Scripted(forced)
    torch_state = torch.get_rng_state()
    proposal = draft_in(impl, at, K, at.model.new_cache(), chance)
    assert proposal.tokens.tolist() == forced  # the token drawn is the token proposed
    assert len(chance.rows) == K and not chance.ratios
    for asked, row in zip(chance.rows, proposal.draft_probs):
        assert torch.equal(asked, row)
    assert torch.equal(torch_state, torch.get_rng_state())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("penalty", [1.0, 3.0])
def test_the_law_of_the_drafts_is_the_draft_models_own(
    impl: Any, seed: int, penalty: float
) -> None:
    model, sampling = tiny(3, seed), Sampling(0.8, repetition_penalty=penalty)
    prefix = torch.tensor([2, 0])

    def run(chance: Any) -> list[int]:
        cache = model.new_cache()
        drafts = impl.draft.draft(model, cache, prefix, 3, sampling, chance)
        return drafts.tokens.tolist()

    expected = naive_law(
        lambda text: next_row(model, sampling, text).tolist(), [2, 0], 3, 24
    )
    assert largest_difference(output_law(run), expected) < 1e-12


@given(at=situations(), seed=st.integers(0, 9))
def test_at_temperature_0_rows_are_one_hot_at_the_token(
    impl: Any, at: Situation, seed: int
) -> None:
    greedy = at._replace(sampling=Sampling(temperature=0))
    K = min(3, longest(at))
    proposal = draft_in(impl, greedy, K, at.model.new_cache(), Seeded(seed))
    V = at.model.config.vocab_size
    expected = torch.nn.functional.one_hot(proposal.tokens, V).to(torch.float64)
    assert torch.equal(proposal.draft_probs.to(torch.float64), expected)


def test_no_pass_feeds_what_the_cache_has_seen(
    impl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a round in which all was accepted the last draft is still unseen: two."""
    model, chance = tiny(4, 1), Seeded(0)
    fed = spy_on_feeding(monkeypatch, model)
    cache, prefix = model.new_cache(), torch.tensor([0, 1, 2])
    drafts = impl.draft.draft(model, cache, prefix, 3, Sampling(), chance).tokens
    assert fed == [3, 1, 1]

    prefix = torch.cat([prefix, drafts, torch.tensor([1])])  # all accepted, a bonus
    fed.clear()
    poison(cache)
    proposal = impl.draft.draft(model, cache, prefix, 2, Sampling(), chance)
    assert fed == [2, 1]
    same(proposal.draft_probs[0], next_row(model, Sampling(), prefix.tolist()))
    assert_holds(cache, model, [*prefix.tolist(), *proposal.tokens.tolist()])


def test_only_the_last_row_passes_through_the_head(
    impl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the prompt, too: all else would be logits that nobody reads."""
    model, prefix = tiny(4, 1), torch.tensor([0, 1, 2])
    rows = spy_on_feeding(monkeypatch, model, "head")
    impl.draft.draft(model, model.new_cache(), prefix, 3, Sampling(), Seeded(0))
    assert rows == [1, 1, 1]


def test_no_graph_is_kept_of_weights_that_can_be_trained(impl: Any) -> None:
    model, prefix = tiny(4, 1).requires_grad_(True), torch.tensor([0, 1, 2])
    cache = model.new_cache()
    proposal = impl.draft.draft(model, cache, prefix, 3, Sampling(), Seeded(0))
    assert not proposal.draft_probs.requires_grad
    assert not any(rows.requires_grad for rows in [*cache.keys, *cache.values])


def test_nothing_asked_is_nothing_done(
    impl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny(3, 0)
    fed = spy_on_feeding(monkeypatch, model)
    cache, chance = model.new_cache(), Scripted()
    prefix = torch.tensor([1, 2])
    proposal = impl.draft.draft(model, cache, prefix, 0, Sampling(), chance)
    assert proposal.tokens.shape == (0,) and proposal.tokens.dtype == torch.int64
    assert proposal.draft_probs.shape == (0, 3)
    assert fed == [] and cache.length == 0 and not chance.rows


# ----------------------------------------------------------------- the model drafter


@given(n=st.integers(1, 9), gamma=st.integers(0, 8), context=st.integers(1, 6))
def test_the_drafter_stops_at_its_own_context(
    impl: Any, n: int, gamma: int, context: int
) -> None:
    model = tiny(3, 5, n_positions=context)
    drafter = impl.draft.ModelDrafter(model)
    prefix = torch.arange(n) % 3
    proposal = drafter.propose(prefix, gamma, Seeded(0))
    K = len(proposal.tokens)
    assert K == max(0, min(gamma, context - n + 1))
    assert proposal.draft_probs.shape == (K, 3)


def test_the_drafter_forgets_what_it_is_told_to(impl: Any) -> None:
    model, sampling = tiny(4, 2), Sampling(temperature=0.7)
    drafter = impl.draft.ModelDrafter(model, sampling)
    prefix = torch.tensor([3, 1, 2])
    drafter.propose(prefix, 4, Seeded(1))
    for length in (6, 9, 4, 2, 2, 0):
        before = drafter.cache.length
        drafter.rollback(length)
        assert drafter.cache.length == min(before, length)
        poison(drafter.cache)
    other = torch.tensor([0, 0, 3, 1])
    drafter.propose(other, 2, Seeded(1))
    drafter.rollback(3)
    poison(drafter.cache)
    again = drafter.propose(torch.tensor([0, 0, 3, 2]), 2, Seeded(1))
    same(again.draft_probs[0], next_row(model, sampling, [0, 0, 3, 2]))


def test_what_the_drafter_has_seen_is_not_fed_again(
    impl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in the next round either."""
    model = tiny(4, 2)
    fed = spy_on_feeding(monkeypatch, model)
    drafter = impl.draft.ModelDrafter(model)
    prefix = torch.tensor([3, 1, 2])
    kept = drafter.propose(prefix, 3, Seeded(1)).tokens[:1]
    drafter.rollback(4)
    drafter.propose(torch.cat([prefix, kept, torch.tensor([0])]), 2, Seeded(1))
    assert fed == [3, 1, 1] + [1, 1]


def test_drafters_share_nothing(impl: Any) -> None:
    model = tiny(4, 2)
    first, second = impl.draft.ModelDrafter(model), impl.draft.ModelDrafter(model)
    first.propose(torch.tensor([3, 1]), 3, Seeded(1))
    assert (first.cache.length, second.cache.length) == (4, 0)


@given(st.lists(st.integers(0, 4), max_size=5))
def test_a_certain_proposal_is_one_hot(impl: Any, tokens: list[int]) -> None:
    ids = torch.tensor(tokens, dtype=torch.long)
    proposal = impl.draft.Proposal.certain(ids, 5)
    assert proposal.tokens.tolist() == tokens
    assert proposal.draft_probs.shape == (len(tokens), 5)
    assert proposal.draft_probs.dtype in (torch.float32, torch.float64)
    for token, row in zip(tokens, proposal.draft_probs.tolist()):
        assert row == [float(i == token) for i in range(5)]

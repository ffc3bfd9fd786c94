"""The draft loop: each token with the very distribution it was drawn from."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from minispec import ModelDrafter, Proposal, Sampling, Seeded

from support.checks import agree
from support.decoding import (
    Scripted, Situation, assert_holds, make_drafter, next_row, poison, prefilled,
    situations, spy_on_caches, spy_on_feeding, tiny
)
from support.strategies import id_sequences

exercise = pytest.mark.exercise5


@exercise
@settings(max_examples=100)
@given(at=situations(), gamma=st.integers(0, 9), data=st.data())
def test_each_row_is_what_its_token_was_drawn_from(
    at: Situation, gamma: int, data: Any
) -> None:
    """The model's own distribution after the drafts before it; no other chance. The
    cache has seen a part of the text already, with NaN in every other slot."""
    V, n = at.model.config.vocab_size, len(at.prefix)
    drafter = ModelDrafter(at.model, at.sampling)
    drafter.begin(at.model.new_cache())
    drafter.cache = prefilled(at.model, at.prefix[: at.seen])
    forced = data.draw(id_sequences(V, gamma, gamma), label="tokens drawn")
    chance = Scripted(forced)
    proposal = drafter.propose(at.prefix.clone(), gamma, chance)

    K = min(gamma, at.model.config.n_positions - n + 1)  # the last is never fed
    what: Any = {"prefix": at.prefix, "gamma": gamma, "cached": at.seen}
    broke = "The tokens proposed, int64 [K], are not those drawn."
    tokens = torch.tensor(forced[:K], dtype=torch.int64)
    agree(proposal.tokens, tokens, broke, **what)
    assert proposal.tokens.dtype == torch.int64, broke
    text = at.prefix.tolist() + forced[:K]
    own = [next_row(at.model, at.sampling, text[: n + i]) for i in range(K)]
    broke = "Row i is not what the model says after prefix + tokens[:i]."
    expected = torch.stack([*own, torch.zeros(V).double()])[:K]
    agree(proposal.draft_probs.double(), expected, broke, drawn=forced, **what)
    broke = "A token was drawn from another row than the one declared."
    drawn_from = [row.tolist() for row in chance.rows]
    agree(drawn_from, proposal.draft_probs.tolist(), broke, **what)
    assert not chance.chances, "A drafter accepts nothing."
    broke = "The cache holds all but the last draft."
    agree(drafter.cache.length, n + K - 1 if K else at.seen, broke, **what)
    assert_holds(drafter.cache, at.model, text)


@exercise
def test_no_pass_feeds_what_the_cache_has_seen(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor after a round: the last draft of one that accepted all is still unseen."""
    sampling = Sampling(repetition_penalty=2.0)
    drafter, twin = (make_drafter("model", 8, sampling=sampling) for _ in range(2))
    drafter.model.requires_grad_(True)
    fed = spy_on_feeding(monkeypatch, drafter.model)
    heads = spy_on_feeding(monkeypatch, drafter.model, "head")
    drafter.begin(tiny().new_cache())
    prefix = torch.tensor([0, 1, 2])
    tokens = drafter.propose(prefix, 3, Seeded(0)).tokens
    agree(fed, [3, 1, 1], "The prefix is fed once, then one draft at a time.")
    for kept, unseen in ((3, 2), (1, 1)):  # drafts kept; they and a token more are new
        fed.clear()
        text = torch.cat([prefix, tokens[:kept], torch.tensor([1])])
        drafter.rollback(len(text) - 1)
        poison(drafter.cache)
        proposal = drafter.propose(text, 2, Seeded(0))
        agree(fed, [unseen, 1], "Tokens fed after a rollback.", drafts_kept=kept)
        texts = text.tolist(), [*text.tolist(), *proposal.tokens[:1].tolist()]
        expected = torch.stack([next_row(twin.model, sampling, one) for one in texts])
        agree(proposal.draft_probs, expected, "A row after a rollback is wrong.")
    assert set(heads) <= {1}, f"only the last row needs the head, it got {heads}"
    assert not proposal.draft_probs.requires_grad, "A graph was kept."
    assert not drafter.cache.keys[0].requires_grad, "A graph was kept."
    fed.clear()
    drafter.propose(text, 0, Seeded(0))
    agree(fed, [], "Nothing was asked for.")


def test_no_drafts_lie_where_the_prefix_lies() -> None:
    """The device `meta` has shapes and no numbers: every machine has it."""
    drafter = make_drafter("model", context=1)  # too short for a draft
    drafter.begin(tiny().new_cache())
    proposal = drafter.propose(torch.tensor([1, 2], device="meta"), 4, Scripted())
    assert proposal.tokens.device.type == proposal.draft_probs.device.type == "meta"


def test_every_text_begins_with_a_cache_of_its_own(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as the target's or the draft's context, whichever is shorter."""
    model = tiny(n_positions=9)
    caches = spy_on_caches(monkeypatch, model)
    first, second = ModelDrafter(model), ModelDrafter(model)
    for drafter, capacity in ((first, 7), (second, 99), (first, 5)):
        drafter.begin(tiny().new_cache(capacity))
        drafter.propose(torch.tensor([3, 1]), 3, Seeded(1))
    assert [cache.capacity for cache in caches] == [7, 9, 5]
    assert [cache.length for cache in caches] == [4, 4, 4]


@given(st.lists(st.integers(0, 4), max_size=5))
def test_a_certain_proposal_is_one_hot(tokens: list[int]) -> None:
    ids = torch.tensor(tokens, dtype=torch.long)
    proposal = Proposal.certain(ids, 5)
    assert proposal.tokens.equal(ids) and proposal.draft_probs.is_floating_point()
    assert proposal.draft_probs.tolist() == torch.eye(5)[ids].tolist()

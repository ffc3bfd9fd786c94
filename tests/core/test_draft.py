"""The draft loop: each token with the very distribution it was drawn from."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from minispec import ModelDrafter, NgramDrafter, Proposal, Sampling, Seeded

from minispec.core.randomness import Randomness
from minispec.core.rejection import reject
from minispec.exactness import output_distribution

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
    agree(proposal.tokens.dtype, torch.int64, broke, **what)
    text = at.prefix.tolist() + forced[:K]
    own = [next_row(at.model, at.sampling, text[: n + i]) for i in range(K)]
    broke = "Row i is not what the model says after prefix + tokens[:i]."
    expected = torch.stack([*own, torch.zeros(V).double()])[:K]
    agree(proposal.draft_probs.double(), expected, broke, drawn=forced, **what)
    broke = "A token was drawn from another row than the one declared."
    drawn_from = [row.tolist() for row in chance.rows]
    agree(drawn_from, proposal.draft_probs.tolist(), broke, **what)
    agree(chance.chances, [], "A drafter accepts nothing.")
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
    agree({*heads}, {1}, "Only the last row of each pass needs the head.")
    kept = proposal.draft_probs.requires_grad, drafter.cache.keys[0].requires_grad
    agree(kept, (False, False), "No graph is kept for gradients.")
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


@pytest.mark.parametrize(
    "model, sampling, says",
    [
        (None, Sampling(), "model must be a GPT, got None"),
        (NgramDrafter(4), Sampling(), "model must be a GPT, got <minispec"),
        (tiny(), 0.8, "sampling must be a Sampling, got 0.8"),
        (tiny(), None, "sampling must be a Sampling, got None"),
    ],
)
def test_what_a_drafter_is_made_of_is_checked(
    model: Any, sampling: Any, says: str
) -> None:
    with pytest.raises(TypeError, match=says):
        ModelDrafter(model, sampling)


# ------------------------------------------------------------- stopping when unsure


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_drafting_stops_after_an_unsure_token_which_stays(temperature: float) -> None:
    """Unsure is the model, whatever the temperature: at 0 the row says 1."""
    model, sampling = tiny(V=4, seed=3), Sampling(temperature)
    prefix = torch.tensor([0, 1])
    lengths = set()
    for seed in range(20):
        whole, short = (ModelDrafter(model, sampling, below) for below in (0.0, 0.3))
        proposals = []
        for drafter in (whole, short):
            drafter.begin(model.new_cache())
            proposals.append(drafter.propose(prefix, 6, Seeded(seed)))
        text = [*prefix.tolist(), *proposals[0].tokens.tolist()]
        sure = [next_row(model, Sampling(), text[:n])[text[n]] for n in range(2, 8)]
        K = next((i + 1 for i, p in enumerate(sure) if p < 0.3), 6)
        agree(proposals[1].tokens, proposals[0].tokens[:K], "Not up to the unsure one.")
        rows = [proposal.draft_probs for proposal in proposals]
        agree(rows[1], rows[0][:K], "Not its rows.")
        lengths.add(K)
    assert temperature == 0 or len(lengths) > 2


def test_dropping_the_unsure_token_is_off_by_its_chance_times_the_targets() -> None:
    """The smallest case: one draft, two tokens. 0.1 * 0.77 = 0.077 too often.

    If the unsure token, drawn once in ten, is dropped, the target draws 77 times in
    100 what the draft is sure of. `reject` allows for no such draws.
    """
    target = torch.tensor([[0.77, 0.23], [0.5, 0.5]], dtype=torch.float64)
    draft = torch.tensor([[0.9, 0.1]], dtype=torch.float64)

    def first_token(keeps: bool) -> float:
        def run(chance: Randomness) -> tuple[int]:
            token = chance.sample(draft[0])
            K = 1 if draft[0, token] >= 0.5 or keeps else 0
            drafts = torch.tensor([token])[:K]
            verdict = reject(drafts, draft[:K], target[: K + 1], chance)
            return (token if verdict.n_accepted else verdict.next_token,)

        return output_distribution(run)[0,]

    agree(first_token(keeps=True), 0.77, "Kept, it changes nothing.")
    agree(first_token(keeps=False), 0.77 + 0.077, "Dropped, it changes this much.")


@pytest.mark.parametrize("stop_below", [-0.1, 1.1, float("nan")])
def test_a_confidence_is_a_probability(stop_below: float) -> None:
    with pytest.raises(ValueError, match="stop_below must be from 0 to 1"):
        ModelDrafter(tiny(), stop_below=stop_below)


@given(st.lists(st.integers(0, 4), max_size=5))
def test_a_certain_proposal_is_one_hot(tokens: list[int]) -> None:
    ids = torch.tensor(tokens, dtype=torch.long)
    proposal = Proposal.certain(ids, 5)
    assert proposal.tokens.equal(ids) and proposal.draft_probs.is_floating_point()
    assert proposal.draft_probs.tolist() == torch.eye(5)[ids].tolist()

"""Heads in general: nothing before the prompt, honest rows, no memory of rejects."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from minispec import Request, Sampling, Seeded, generate
from minispec.core.speculative import speculative_round
from minispec.core.text import Text
from minispec.drafters.early_exit import EarlyExit
from minispec.drafters.heads import Drafts
from minispec.model.kv_cache import KVCache

from support.checks import agree
from support.decoding import Scripted, poison, tiny
from support.heads import SIZES, tiny_head

TARGET = tiny(V=5, n_layer=3)


@pytest.mark.parametrize("kind", SIZES)
def test_no_head_drafts_before_the_prompt_was_read_or_beyond_gamma(kind: str) -> None:
    drafter = tiny_head(kind, TARGET).drafter(TARGET)
    cache, prefix = TARGET.new_cache(), torch.tensor([0, 1, 2, 3])
    drafter.begin(cache)
    before = drafter.propose(prefix, 2, Scripted())
    assert before.tokens.shape == (0,) and before.draft_probs.shape == (0, 5)
    TARGET(prefix[None, :-1], cache)
    for gamma in (0, 1, 3):
        chance = Scripted()
        proposal = drafter.propose(prefix, gamma, chance)
        assert len(proposal.tokens) == gamma
        agree(
            [row.tolist() for row in chance.rows],
            proposal.draft_probs.tolist(),
            "A token was drawn from another row than the one declared.",
        )
        drafter.rollback(3)
    assert prefix.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", SIZES)
def test_nothing_that_was_rolled_back_is_read(kind: str) -> None:
    """Every cache filled with NaN from its length on, after every round."""
    drafter: Any = tiny_head(kind, TARGET).drafter(TARGET)
    text = Text(Request(torch.tensor([0, 1, 4]), 18), TARGET)
    drafter.begin(text.cache)
    own = [getattr(drafter, "rows", None), *getattr(drafter, "caches", [])]
    chance = Scripted(accepts=[True, False, True, True] * 9)
    while text.finish_reason is None:
        speculative_round(TARGET, drafter, text, text.n_drafts(3), chance)
        for cache in [text.cache, *filter(None, own)]:
            assert cache.length <= text.length - 1
            poison(cache)
            for rows in cache.taps.values():
                rows[:, cache.length :] = torch.nan


def test_a_draft_is_drawn_from_the_processed_row_after_the_drafts_before() -> None:
    sampling = Sampling(temperature=0.5, repetition_penalty=2.0)
    prefix, logits = torch.tensor([3, 3]), torch.tensor([[1.0, 2.0, 3.0, 4.0, 0.5]])
    drafts, chance = Drafts(prefix, 3, TARGET, sampling), Scripted([2, 0])
    drafts.draw(logits.double(), chance)
    drafts.draw(logits.double(), chance)
    second = torch.tensor([1.0, 2.0, 3.0 / 2, 4.0 / 2, 0.5]).double() / 0.5
    agree(chance.rows[1], second.softmax(0), "The first draft must weigh less.")
    proposal = drafts.proposal()
    assert proposal.tokens.tolist() == [2, 0] and len(proposal.draft_probs) == 2
    agree(proposal.draft_probs, torch.stack(chance.rows), "Rows are not those drawn.")


@pytest.mark.parametrize("kind", [*SIZES, "early-exit"])
def test_a_target_of_another_shape_is_named(kind: str) -> None:
    """Where the drafter is built, and where another target decodes with it."""
    head = EarlyExit(TARGET.config, 1, 3) if kind == "early-exit" else None
    head = (head or tiny_head(kind, TARGET)).double()
    for other in (tiny(V=5, n_layer=2), tiny(V=4, n_layer=3), None):
        with pytest.raises(ValueError, match="the head reads a target of"):
            head.drafter(other)
    for other, says in ((tiny(V=5), "3 layers"), (tiny(V=4, n_layer=3), "share one")):
        with pytest.raises(ValueError, match=says):
            request = Request(torch.tensor([0, 1]), 4)
            generate(other, head.drafter(TARGET), request, Seeded(0))
    a_part = KVCache(3, 1, 2, 8)  # one rank's, of a target that is split
    with pytest.raises(ValueError, match="has 3 of width 2: decode with"):
        head.drafter(TARGET).begin(a_part)


@pytest.mark.parametrize("kind", [*SIZES, "early-exit"])
def test_a_head_of_another_type_than_its_target_is_named(kind: str) -> None:
    head = EarlyExit(TARGET.config, 1, 3) if kind == "early-exit" else None
    head = (head or tiny_head(kind, TARGET)).float()
    with pytest.raises(ValueError, match="of torch.float32 on .* of torch.float64 on"):
        head.drafter(TARGET)
    head.to(TARGET.wte.weight).drafter(TARGET)

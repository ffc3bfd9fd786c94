"""Parallel verification: one pass says what token-by-token decoding would have said."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minispec import Sampling
from minispec.core.verify import verify

from support.checks import agree
from support.decoding import (
    Situation, assert_holds, next_row, prefilled, situations, spy_on_feeding, tiny,
)
from support.strategies import id_sequences

pytestmark = pytest.mark.exercise6


@settings(max_examples=100)
@given(at=situations(), data=st.data())
def test_row_i_is_the_targets_own_after_i_drafted_tokens(
    at: Situation, data: Any
) -> None:
    V, n = at.model.config.vocab_size, len(at.prefix)
    room = at.model.config.n_positions - n
    drafts = data.draw(id_sequences(V, 0, room), label="drafts")
    tokens = torch.tensor(drafts, dtype=torch.long)
    cache = prefilled(at.model, at.prefix[: at.seen])

    rows = verify(at.model, cache, at.prefix, tokens, at.sampling)

    text = at.prefix.tolist() + drafts
    ends = range(n, len(text) + 1)
    own = [next_row(at.model, at.sampling, text[:end]) for end in ends]
    what = {"prefix": at.prefix, "drafts": drafts, "cached": at.seen}
    broke = "Row i is not what the target says after prefix + tokens[:i]."
    agree(rows, torch.stack(own), broke, **what, sampling=at.sampling)
    broke = "Afterwards the cache holds the prefix and all drafts."
    agree(cache.length, len(text), broke, **what)
    assert_holds(cache, at.model, text)


@pytest.mark.parametrize("seen", range(3))
@pytest.mark.parametrize("K", range(4))
def test_it_is_one_pass_over_the_unseen_tokens_only(
    monkeypatch: pytest.MonkeyPatch, seen: int, K: int
) -> None:
    """And of them only the K + 1 rows that matter need the head. No graph is kept."""
    model, prefix = tiny().requires_grad_(True), torch.tensor([1, 3, 2])
    cache = prefilled(model, prefix[:seen])
    fed = spy_on_feeding(monkeypatch, model)
    rows = spy_on_feeding(monkeypatch, model, "head")
    got = verify(model, cache, prefix, torch.arange(K), Sampling())
    broke = "Verification is one pass over what the cache has not seen."
    agree(fed, [3 - seen + K], broke, prefix=prefix, cached=seen, K=K)
    broke = "Only the K + 1 rows that matter go through the head."
    agree(sum(rows), K + 1, broke, prefix=prefix, cached=seen, K=K)
    kept = got.requires_grad, cache.keys[0].requires_grad
    agree(kept, (False, False), "No graph is kept for gradients.")

"""Rollback: to a length, and what lies beyond it is never read again."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from minispec.core.rollback import rollback

from support.checks import agree
from support.decoding import (
    Situation, assert_holds, held, poison, prefilled, situations
)
from support.strategies import id_sequences

pytestmark = pytest.mark.exercise9


@given(at=situations(), length=st.integers(0, 12))
def test_the_length_is_absolute_and_never_grows(at: Situation, length: int) -> None:
    """What is kept is kept to the bit; no memory moves, and nothing is cleared."""
    cache = prefilled(at.model, at.prefix)
    before, n = held(cache), len(at.prefix)
    where = [rows.data_ptr() for rows in [*cache.keys, *cache.values]]
    memory = [rows.clone() for rows in [*cache.keys, *cache.values]]
    rollback(cache, length)
    broke = "The cache keeps the first `length` positions; a shorter one stays."
    agree(cache.length, min(n, length), broke, held=n, length=length)
    kept = before[..., :length, :]
    agree(held(cache), kept, "The rows that stay have changed.", tolerance=0)
    rollback(at.model.new_cache(), length)  # an empty one stays empty
    now = [rows.data_ptr() for rows in [*cache.keys, *cache.values]]
    agree(now == where, True, "No memory moves: the cache's tensors stay the same.")
    for rows, old in zip([*cache.keys, *cache.values], memory):
        same = rows.nan_to_num(7).equal(old.nan_to_num(7))
        agree(same, True, "No slot is cleared: rows that stay must not change either.")


@given(at=situations(n_positions=12), data=st.data())
def test_slots_rolled_back_are_never_read(at: Situation, data: Any) -> None:
    """Rejected tokens are replaced, block by block, over slots full of NaN."""
    V, context = at.model.config.vocab_size, at.model.config.n_positions
    cache = prefilled(at.model, at.prefix)
    text = at.prefix.tolist()
    for _ in range(3):
        length = data.draw(st.integers(0, len(text)), label="length")
        rollback(cache, length)
        poison(cache)
        text = text[:length]
        if room := context - length:
            text += data.draw(id_sequences(V, 1, room), label="other tokens")
            ids = torch.tensor([text])
            logits = at.model(ids[:, cache.length :], cache)[0]
            broke = "After a rollback the model does not go on as if nothing had been."
            agree(logits, at.model(ids)[0, length:], broke, text=text, length=length)
        assert_holds(cache, at.model, text)

"""Rollback: to a length, and what lies beyond it is never read again."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from minispec.gpt2 import GPT
from minispec.sampling import logits_to_probs

from decoding import (
    Situation,
    assert_holds,
    held,
    next_row,
    poison,
    prefilled,
    same,
    situations,
    tiny,
)

pytestmark = pytest.mark.exercise9
LENGTHS = st.integers(0, 12)


def pointers(cache: Any) -> list[int]:
    return [tensor.data_ptr() for tensor in [*cache.keys, *cache.values]]


@given(at=situations(), length=LENGTHS)
def test_the_length_is_absolute_and_never_grows(
    impl: Any, at: Situation, length: int
) -> None:
    cache = prefilled(at.model, at.prefix)
    where, n = pointers(cache), len(at.prefix)
    assert impl.rollback.rollback(cache, length) is None
    assert cache.length == min(n, length)
    assert_holds(cache, at.model, at.prefix.tolist())
    assert pointers(cache) == where  # no memory moved


@given(at=situations(), lengths=st.lists(LENGTHS, min_size=1, max_size=4))
def test_many_rollbacks_are_one_to_the_shortest(
    impl: Any, at: Situation, lengths: list[int]
) -> None:
    cache = prefilled(at.model, at.prefix)
    for length in [*lengths, *lengths]:
        impl.rollback.rollback(cache, length)
    assert cache.length == min(len(at.prefix), *lengths)


@given(at=situations(), length=LENGTHS)
def test_what_is_kept_is_kept_to_the_bit(
    impl: Any, at: Situation, length: int
) -> None:
    cache = prefilled(at.model, at.prefix)
    before = held(cache).clone()
    impl.rollback.rollback(cache, length)
    assert torch.equal(held(cache), before[..., :length, :])


def test_an_empty_cache_and_length_0(impl: Any) -> None:
    model = tiny(3, 0)
    cache = model.new_cache()
    impl.rollback.rollback(cache, 0)
    impl.rollback.rollback(cache, 5)
    assert cache.length == 0
    cache = prefilled(model, torch.tensor([0, 1]))
    impl.rollback.rollback(cache, 0)
    assert cache.length == 0


def decode_on(model: GPT, cache: Any, text: list[int], at: Situation) -> torch.Tensor:
    """The last row after feeding what the cache has not seen."""
    ids = torch.tensor(text)
    logits = model(ids[None, cache.length :], cache)[0, -1:]
    return logits_to_probs(logits, at.sampling, ids)[0]


@given(at=situations(n_positions=12), data=st.data())
def test_slots_rolled_back_are_never_read(impl: Any, at: Situation, data: Any) -> None:
    """Refused tokens are replaced by others, block by block, over slots full of NaN."""
    V, context = at.model.config.vocab_size, at.model.config.n_positions
    cache = prefilled(at.model, at.prefix)
    text = at.prefix.tolist()
    for _ in range(3):
        length = data.draw(st.integers(0, len(text)), label="length")
        impl.rollback.rollback(cache, length)
        poison(cache)
        text = text[:length]
        room = context - length
        if room:
            ids = st.lists(st.integers(0, V - 1), min_size=1, max_size=room)
            text += data.draw(ids, label="other tokens")
            row = decode_on(at.model, cache, text, at)
            same(row, next_row(at.model, at.sampling, text))
        assert_holds(cache, at.model, text)

"""Parallel verification: one pass says what token-by-token decoding would have said."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from minispec.sampling import Sampling

from decoding import (
    Situation,
    assert_holds,
    next_row,
    prefilled,
    same,
    situations,
    spy_on_feeding,
    tiny,
)

pytestmark = pytest.mark.exercise6


@given(at=situations(), data=st.data())
def test_row_i_is_the_targets_own_after_i_drafted_tokens(
    impl: Any, at: Situation, data: Any
) -> None:
    V, n = at.model.config.vocab_size, len(at.prefix)
    room = at.model.config.n_positions - n
    ids = st.lists(st.integers(0, V - 1), max_size=room)
    drafts = data.draw(ids, label="drafts")
    tokens = torch.tensor(drafts, dtype=torch.long)
    cache = prefilled(at.model, at.prefix[: at.seen])

    rows = impl.verify.verify(at.model, cache, at.prefix, tokens, at.sampling)

    text = at.prefix.tolist() + drafts
    assert rows.shape == (len(drafts) + 1, V)
    for i, row in enumerate(rows):
        same(row, next_row(at.model, at.sampling, text[: n + i]))
    assert cache.length == n + len(drafts)
    assert_holds(cache, at.model, text)


@given(at=situations(n_positions=10), data=st.data())
def test_how_much_the_cache_has_seen_changes_nothing(
    impl: Any, at: Situation, data: Any
) -> None:
    room = at.model.config.n_positions - len(at.prefix)
    tokens = torch.zeros(data.draw(st.integers(0, room)), dtype=torch.long)
    answers = [
        impl.verify.verify(
            at.model,
            prefilled(at.model, at.prefix[:seen]),
            at.prefix,
            tokens,
            at.sampling,
        )
        for seen in range(len(at.prefix))
    ]
    for answer in answers:
        same(answer, answers[0])


@pytest.mark.parametrize("seen", range(3))
@pytest.mark.parametrize("K", range(4))
def test_one_pass_over_the_unseen_tokens_only(
    impl: Any, monkeypatch: pytest.MonkeyPatch, seen: int, K: int
) -> None:
    model, prefix = tiny(4, 3), torch.tensor([1, 3, 2])
    cache = prefilled(model, prefix[:seen])
    fed = spy_on_feeding(monkeypatch, model)
    tokens = torch.arange(K)
    impl.verify.verify(model, cache, prefix, tokens, Sampling())
    assert fed == [3 - seen + K]


@pytest.mark.parametrize("K", range(4))
def test_only_the_rows_that_matter_pass_through_the_head(
    impl: Any, monkeypatch: pytest.MonkeyPatch, K: int
) -> None:
    """K + 1, however long the prompt: all else would be logits that nobody reads."""
    model, prefix = tiny(4, 3), torch.tensor([1, 3, 2, 2])
    rows = spy_on_feeding(monkeypatch, model, "head")
    impl.verify.verify(model, model.new_cache(), prefix, torch.arange(K), Sampling())
    assert rows == [K + 1]


def test_no_graph_is_kept_of_weights_that_can_be_trained(impl: Any) -> None:
    model, prefix = tiny(4, 3).requires_grad_(True), torch.tensor([1, 3, 2])
    cache = model.new_cache()
    rows = impl.verify.verify(model, cache, prefix, prefix[:2], Sampling())
    assert not rows.requires_grad
    assert not any(rows.requires_grad for rows in [*cache.keys, *cache.values])


@pytest.mark.parametrize("n", [1, 5])
def test_nothing_drafted_is_a_plain_target_step(impl: Any, n: int) -> None:
    model, prefix = tiny(3, 8), torch.arange(n) % 3
    none = prefix[:0]
    cache = model.new_cache()
    rows = impl.verify.verify(model, cache, prefix, none, Sampling(0.5))
    assert rows.shape == (1, 3) and cache.length == n
    same(rows[0], next_row(model, Sampling(0.5), prefix.tolist()))


def test_the_context_can_be_filled_and_not_overfilled(impl: Any) -> None:
    model, prefix = tiny(3, 8, n_positions=6), torch.tensor([0, 1, 2, 0])
    fits = torch.tensor([1, 2])
    rows = impl.verify.verify(model, model.new_cache(), prefix, fits, Sampling())
    same(rows[2], next_row(model, Sampling(), [0, 1, 2, 0, 1, 2]))
    with pytest.raises(ValueError, match="7 tokens do not fit the context of 6"):
        long = torch.tensor([1, 2, 0])
        impl.verify.verify(model, model.new_cache(), prefix, long, Sampling())

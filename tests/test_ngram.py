"""Prompt lookup: what followed the latest earlier place of the longest suffix."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from minispec.randomness import Seeded

from oracles import naive_copy_continuation

pytestmark = pytest.mark.exercise13

TEXTS = st.integers(1, 4).flatmap(
    lambda V: st.lists(st.integers(0, V - 1), min_size=1, max_size=14)
)


def copied(
    impl: Any, text: list[int], gamma: int, longest: int = 3, shortest: int = 1
) -> list[int]:
    prefix = torch.tensor(text)
    tokens = impl.drafters.ngram.copy_continuation(prefix, gamma, longest, shortest)
    assert tokens.dtype == torch.int64 and tokens.ndim == 1
    return tokens.tolist()


@settings(max_examples=300)
@given(
    text=TEXTS,
    gamma=st.integers(0, 6),
    shortest=st.integers(1, 4),
    more=st.integers(0, 3),
)
def test_it_is_the_naive_search(
    impl: Any, text: list[int], gamma: int, shortest: int, more: int
) -> None:
    longest = shortest + more
    expected = naive_copy_continuation(text, gamma, longest, shortest)
    assert copied(impl, text, gamma, longest, shortest) == expected


@pytest.mark.parametrize(
    "text, gamma, longest, shortest, expected",
    [
        pytest.param([1, 2, 3], 4, 3, 1, [], id="nothing matches"),
        pytest.param([1], 4, 3, 1, [], id="one token has no past"),
        pytest.param([7, 1, 7, 2, 7], 1, 3, 1, [2], id="the latest place wins"),
        pytest.param([1, 2, 9, 2, 8, 1, 2], 1, 2, 1, [9], id="a longer match wins"),
        pytest.param([1, 2, 9, 2, 8, 1, 2], 1, 1, 1, [8], id="no longer than asked"),
        pytest.param([5, 5], 3, 3, 1, [5], id="not the suffix itself"),
        pytest.param([5, 5, 5, 5], 3, 3, 1, [5], id="overlapping its own suffix"),
        pytest.param([1, 2, 3, 1], 2, 3, 2, [], id="too short a match"),
        pytest.param([1, 2, 3, 1], 9, 3, 1, [2, 3, 1], id="up to the text's end"),
        pytest.param([1, 2, 3, 1], 2, 3, 1, [2, 3], id="no more than gamma"),
        pytest.param([1, 2, 3, 1], 0, 3, 1, [], id="gamma 0"),
        pytest.param([0, 0, 1, 0, 0], 2, 9, 1, [1, 0], id="id 0, longest > text"),
    ],
)
def test_by_hand(
    impl: Any,
    text: list[int],
    gamma: int,
    longest: int,
    shortest: int,
    expected: list[int],
) -> None:
    assert copied(impl, text, gamma, longest, shortest) == expected


@given(text=TEXTS, gamma=st.integers(0, 5))
def test_the_drafter_is_certain_and_draws_nothing(
    impl: Any, text: list[int], gamma: int
) -> None:
    drafter = impl.drafters.ngram.NgramDrafter(vocab_size=4, longest=3)
    chance, twin = Seeded(3), Seeded(3)
    prefix = torch.tensor(text)
    proposal = drafter.propose(prefix, gamma, chance)
    assert proposal.tokens.tolist() == naive_copy_continuation(text, gamma, 3, 1)
    K = len(proposal.tokens)
    assert proposal.draft_probs.shape == (K, 4)
    for token, row in zip(proposal.tokens.tolist(), proposal.draft_probs.tolist()):
        assert row == [float(i == token) for i in range(4)]
    assert prefix.tolist() == text
    row = torch.full((999,), 1 / 999)
    assert chance.sample(row) == twin.sample(row)

    drafter.rollback(0)  # there is nothing to forget
    again = drafter.propose(prefix, gamma, chance)
    assert torch.equal(again.tokens, proposal.tokens)


def test_its_limits_are_those_it_was_given(impl: Any) -> None:
    text = torch.tensor([1, 2, 9, 2, 8, 1, 2])
    make = impl.drafters.ngram.NgramDrafter
    long, short = make(10), make(10, longest=1)
    assert long.propose(text, 1, Seeded(0)).tokens.tolist() == [9]
    assert short.propose(text, 1, Seeded(0)).tokens.tolist() == [8]
    assert not len(make(10, 4, shortest=3).propose(text, 1, Seeded(0)).tokens)


@pytest.mark.parametrize("longest, shortest", [(0, 0), (2, 3), (3, 0), (0, 1)])
def test_lengths_that_make_no_sense_are_refused(
    impl: Any, longest: int, shortest: int
) -> None:
    said = f"1 <= shortest <= longest, got shortest {shortest} and longest {longest}"
    with pytest.raises(ValueError, match=said):
        impl.drafters.ngram.NgramDrafter(4, longest, shortest)

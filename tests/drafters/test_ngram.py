"""Prompt lookup: what followed the latest earlier place of the longest suffix."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from minispec import NgramDrafter
from minispec.drafters.ngram import copy_continuation

from support.checks import agree
from support.decoding import Scripted
from support.oracles import naive_copy_continuation
from support.strategies import id_sequences

exercise = pytest.mark.exercise13
TEXTS = st.integers(1, 4).flatmap(lambda V: id_sequences(V, 1, 14))


def check(
    text: list[int], gamma: int, longest: int, shortest: int, expected: list[int]
) -> None:
    tokens = copy_continuation(torch.tensor(text), gamma, longest, shortest)
    what = {"text": text, "gamma": gamma, "longest": longest, "shortest": shortest}
    broke = "Not what followed the latest earlier place of the longest suffix."
    got = list(tokens) if isinstance(tokens, torch.Tensor) else [None]
    if got == text[len(text) - len(got) :]:
        broke += " Did the suffix match itself? A match begins earlier."
    agree(tokens, torch.tensor(expected, dtype=torch.int64), broke, **what)
    agree(tokens.dtype, torch.int64, "Ids are int64.", **what)


@exercise
@settings(max_examples=300)
@given(TEXTS, st.integers(0, 6), st.integers(1, 4), st.integers(0, 3))
def test_it_is_the_naive_search(
    text: list[int], gamma: int, shortest: int, more: int
) -> None:
    expected = naive_copy_continuation(text, gamma, shortest + more, shortest)
    check(text, gamma, shortest + more, shortest, expected)


@exercise
@pytest.mark.parametrize(
    "text, gamma, longest, shortest, expected",
    [
        pytest.param([1], 4, 3, 1, [], id="one token has no past"),
        pytest.param([7, 1, 7, 2, 7], 1, 3, 1, [2], id="the latest place wins"),
        pytest.param([1, 2, 9, 2, 8, 1, 2], 1, 2, 1, [9], id="a longer match wins"),
        pytest.param([5, 5, 5, 5], 3, 3, 1, [5], id="overlapping its own suffix"),
        pytest.param([1, 2, 3, 1], 2, 3, 2, [], id="too short a match"),
        pytest.param([1, 2, 3, 1], 9, 3, 1, [2, 3, 1], id="up to the text's end"),
        pytest.param([0, 0, 1, 0, 0], 2, 9, 1, [1, 0], id="id 0, longest > text"),
    ],
)
def test_by_hand(
    text: list[int], gamma: int, longest: int, shortest: int, expected: list[int]
) -> None:
    check(text, gamma, longest, shortest, expected)


@given(text=TEXTS, gamma=st.integers(0, 5))
def test_the_drafter_is_certain_draws_nothing_and_changes_nothing(
    text: list[int], gamma: int
) -> None:
    chance, prefix = Scripted(), torch.tensor(text)
    proposal = NgramDrafter(vocab_size=4, longest=3).propose(prefix, gamma, chance)
    assert proposal.tokens.tolist() == naive_copy_continuation(text, gamma, 3, 1)
    assert proposal.draft_probs.tolist() == torch.eye(4)[proposal.tokens].tolist()
    assert not chance.rows and not chance.chances and prefix.tolist() == text


@pytest.mark.parametrize("longest, shortest, expected", [(4, 1, 9), (1, 1, 8)])
def test_its_limits_are_those_it_was_given(
    longest: int, shortest: int, expected: int
) -> None:
    text, drafter = torch.tensor([1, 2, 9, 2, 8, 1, 2]), NgramDrafter(10, longest)
    assert drafter.propose(text, 1, Scripted()).tokens.tolist() == [expected]
    none = NgramDrafter(10, 4, shortest=3).propose(text, 1, Scripted())
    assert none.draft_probs.shape == (0, 10)


@pytest.mark.parametrize(
    "wrong, error, says",
    [
        ({"shortest": 0, "longest": 0}, ValueError, "shortest must be at least 1"),
        ({"shortest": 3, "longest": 2}, ValueError, "longest must be at least 3"),
        ({"longest": 0}, ValueError, "longest must be at least 1, got 0"),
        ({"longest": 2.0}, TypeError, "longest must be a whole number, got 2.0"),
        ({"vocab_size": "4"}, TypeError, "vocab_size must be a whole number, got '4'"),
        ({"vocab_size": 0}, ValueError, "vocab_size must be at least 1, got 0"),
    ],
)
def test_arguments_that_make_no_sense_are_an_error(
    wrong: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        NgramDrafter(**{"vocab_size": 4, **wrong})

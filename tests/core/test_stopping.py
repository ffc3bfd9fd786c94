"""A text ends at its first EOS, at its budget or at the context's end, to the token."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from minispec.core.stopping import FinishReason, Limits

from support.checks import agree
from support.strategies import id_sequences

pytestmark = pytest.mark.exercise11


def one_by_one(
    n: int, new: list[int], limits: Limits
) -> tuple[tuple[int, ...], str | None]:
    """As a decoder that writes one token at a time would end."""
    text: list[int] = []
    for token in new[: limits.max_length - n]:
        text.append(token)
        if token in limits.eos_ids:
            return tuple(text), "eos"
    return tuple(text), limits.reason if n + len(text) == limits.max_length else None


@settings(max_examples=200)
@given(
    n=st.integers(1, 5),
    room=st.integers(0, 9),
    new=id_sequences(5, 0, 9),
    reason=st.sampled_from(["length", "context"]),
    eos_ids=id_sequences(5, 0, 3),
)
def test_a_block_ends_where_single_tokens_would(
    n: int, room: int, new: list[int], reason: FinishReason, eos_ids: list[int]
) -> None:
    """And the list that was handed in stays as it was."""
    limits, copy = Limits(n + room, reason, tuple(eos_ids)), list(new)
    kept, why = limits.cut(n, new)
    broke = "The text goes on or ends elsewhere than if written token by token."
    expected = one_by_one(n, copy, limits)
    agree((tuple(kept), why), expected, broke, limits=limits, committed=n, new=copy)
    agree(new, copy, "The list handed in was changed.")
    agree(limits.room(n), room, "The room is what is left up to max_length.")


@pytest.mark.parametrize(
    "new, expected",
    [
        ([5, 0], ((5, 0), "eos")),  # as the last token allowed
        ([5, 6, 0], ((5, 6), "length")),  # beyond the budget
        ([3, 0], ((3,), "eos")),  # the first in the text, not the first listed
        ([5], ((5,), None)),
    ],
)
def test_the_first_eos_within_the_budget_is_the_last_token(
    new: list[int], expected: tuple[tuple[int, ...], str | None]
) -> None:
    found = Limits(3, "length", (0, 3)).cut(1, new)
    agree(found, expected, "One token is committed; two fit; 0 and 3 end it.", new=new)

"""A text ends at its first EOS, at its budget or at the context's end, to the token."""

from __future__ import annotations

from types import ModuleType

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

TOKENS = st.integers(0, 4)
TEXTS = st.lists(TOKENS, max_size=9)
EOS_IDS = st.sets(TOKENS, max_size=3)
Ending = tuple[list[int], str | None]


def grow(n: int, new: list[int], longest: int, reason: str, eos: set[int]) -> Ending:
    """One token at a time, as a plain decoder would."""
    text: list[int] = []
    if n == longest:
        return text, reason
    for token in new:
        text.append(token)
        if token in eos:
            return text, "eos"
        if n + len(text) == longest:
            return text, reason
    return text, None


@pytest.mark.exercise11
@given(
    n=st.integers(1, 5),
    room=st.integers(0, 9),
    new=TEXTS,
    reason=st.sampled_from(["length", "context"]),
    eos_ids=EOS_IDS,
)
def test_a_block_ends_where_single_tokens_would(
    impl: ModuleType, n: int, room: int, new: list[int], reason: str, eos_ids: set[int]
) -> None:
    limits = impl.stopping.Limits(n + room, reason, frozenset(eos_ids))
    kept, ended = limits.cut(n, list(new))
    assert (list(kept), ended) == grow(n, new, n + room, reason, eos_ids)


@pytest.mark.exercise11
@given(
    room=st.integers(0, 9),
    text=TEXTS,
    sizes=st.lists(st.integers(0, 4)),
    eos_ids=EOS_IDS,
)
def test_how_a_text_is_cut_into_blocks_does_not_matter(
    impl: ModuleType, room: int, text: list[int], sizes: list[int], eos_ids: set[int]
) -> None:
    limits = impl.stopping.Limits(2 + room, "length", frozenset(eos_ids))
    committed: list[int] = []
    reason, rest = None, text
    for size in [*sizes, len(text)]:
        if reason is None:
            kept, reason = limits.cut(2 + len(committed), rest[:size])
            committed.extend(kept)
            rest = rest[size:]
    whole, expected = limits.cut(2, text)
    assert (tuple(committed), reason) == (tuple(whole), expected)


@pytest.mark.exercise11
@pytest.mark.parametrize("eos_ids", [{0}, {3}, {0, 3}, {3, 0, 9}])
@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("first, second", [(0, 3), (3, 0), (0, 0), (3, 3)])
def test_the_first_eos_in_the_block_is_the_last_token(
    impl: ModuleType, eos_ids: set[int], place: int, first: int, second: int
) -> None:
    """By place, not by the order of the ids; id 0 is an id; the EOS itself is kept."""
    new = [1] * 5 + [second]
    new[place] = first
    ends = [i for i, token in enumerate(new) if token in eos_ids]
    limits = impl.stopping.Limits(100, "length", frozenset(eos_ids))
    kept, reason = limits.cut(1, new)
    wanted = new[: ends[0] + 1] if ends else new
    assert (list(kept), reason) == (wanted, "eos" if ends else None)


@pytest.mark.exercise11
def test_an_eos_as_the_last_token_allowed_is_an_eos(impl: ModuleType) -> None:
    limits = impl.stopping.Limits(3, "length", frozenset({0}))
    assert limits.cut(1, [5, 0]) == ((5, 0), "eos")
    assert limits.cut(1, [5, 6, 0]) == ((5, 6), "length")
    assert limits.cut(3, [0]) == ((), "length")


@pytest.mark.exercise11
@given(new=TEXTS)
def test_the_block_is_left_as_it_was(impl: ModuleType, new: list[int]) -> None:
    copy = list(new)
    impl.stopping.Limits(4, "length", frozenset({0})).cut(1, new)
    assert new == copy


# ----------------------------------------------------------- from a request to limits


@given(
    n_prompt=st.integers(1, 9),
    budget=st.integers(0, 12),
    n_positions=st.integers(9, 14),
    eos_ids=EOS_IDS,
)
def test_budget_or_context_whichever_comes_first(
    impl: ModuleType, n_prompt: int, budget: int, n_positions: int, eos_ids: set[int]
) -> None:
    """The text gets exactly what was asked for, or fills the context to its end."""
    request = (n_prompt, budget, sorted(eos_ids), n_positions)
    limits = impl.stopping.Limits.for_request(*request)
    room = n_positions - n_prompt
    assert limits.room(n_prompt) == min(budget, room)
    assert limits.reason == ("length" if budget <= room else "context")
    assert limits.eos_ids == eos_ids
    kept, reason = limits.cut(n_prompt, [7] * 20)
    assert (len(kept), reason) == (min(budget, room), limits.reason)


@pytest.mark.parametrize(
    "n_prompt, budget, message",
    [
        (0, 5, "prompt is empty: give at least one"),
        (11, 5, "11 tokens.* holds 10: shorten"),
        (3, -1, "max_new_tokens must be 0 or more, got -1"),
    ],
)
def test_impossible_requests_say_what_to_do(
    impl: ModuleType, n_prompt: int, budget: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        impl.stopping.Limits.for_request(n_prompt, budget, (), 10)


def test_a_prompt_may_fill_the_context(impl: ModuleType) -> None:
    """Nothing can follow: it is the context that ends, unless nothing was asked for."""
    limits = impl.stopping.Limits.for_request(10, 4, (), 10)
    assert limits.cut(10, []) == ((), "context")
    limits = impl.stopping.Limits.for_request(10, 0, (), 10)
    assert limits.cut(10, []) == ((), "length")


def test_eos_ids_may_be_a_tensor_and_must_be_whole_numbers(impl: ModuleType) -> None:
    """A tensor's elements are equal to no id, and a letter is none."""
    limits = impl.stopping.Limits.for_request(1, 9, torch.tensor([3, 1]), 99)
    assert limits.eos_ids == {1, 3}
    assert limits.cut(1, [2, 3, 0]) == ((2, 3), "eos")
    for no_ids in ("\n", [1.5]):
        with pytest.raises(TypeError, match="integer"):
            impl.stopping.Limits.for_request(1, 9, no_ids, 99)

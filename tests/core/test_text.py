"""Requests: each wrong argument is named where it enters. Texts: cut at the limits."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from minispec import Request, Sampling, Seeded, generate
from minispec.core.text import Text

from support.decoding import DRAFTERS, make_drafter, tiny
from support.strategies import id_sequences

IDS = torch.tensor([0, 1])


@pytest.mark.parametrize(
    "prompt",
    [[0, 1], "text", None, IDS[None], torch.tensor(1), IDS.float(), IDS[:0], IDS > 0]
    + [IDS.to("meta"), IDS.to_sparse()],
)
def test_what_cannot_be_a_prompt_is_an_error(prompt: Any) -> None:
    with pytest.raises(ValueError, match="prompt must be a tensor of at least one id"):
        Request(prompt, 5)


@pytest.mark.parametrize(
    "name, value, error, says",
    [
        ("max_new_tokens", 3.0, TypeError, "must be a whole number, got 3.0"),
        ("max_new_tokens", None, TypeError, "must be a whole number, got None"),
        ("max_new_tokens", -1, ValueError, "must be at least 0, got -1"),
        ("sampling", 0.8, TypeError, "must be a Sampling, got 0.8"),
        ("judge", None, TypeError, "must be a function, got None"),
        ("gamma", 2.0, TypeError, "must be a whole number, got 2.0"),
        ("gamma", torch.tensor(2.0), TypeError, "must be a whole number, got tensor"),
        ("gamma", 0, ValueError, "must be at least 1, got 0"),
        ("gamma", -1, ValueError, "must be at least 1, got -1"),
    ],
)
def test_an_argument_that_cannot_be_right_is_named(
    name: str, value: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=f"{name} {says}"):
        Request(IDS, **{"max_new_tokens": 5, name: value})


@pytest.mark.parametrize(
    "prompt, says",
    [
        ([0, 4, -1], r"below 4, got \[4, -1\]: was it encoded with this model's"),
        ([4] * 5000, r"below 4, got \[4, 4, .{60,80}: was it"),
        ([0] * 7, "the prompt has 7 tokens and the target's context holds 6"),
    ],
)
def test_a_prompt_the_target_cannot_read_is_an_error(
    prompt: list[int], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        Text(Request(torch.tensor(prompt), 5), tiny(n_positions=6))


def test_what_is_no_target_or_no_request_is_named() -> None:
    drafter, request = make_drafter("model"), Request(IDS, 5)
    with pytest.raises(TypeError, match="target must be a GPT, got <minispec"):
        generate(drafter, drafter, request, Seeded(0))
    with pytest.raises(TypeError, match=r"a Request\(prompt, n\), got tensor"):
        generate(tiny(), drafter, IDS, Seeded(0))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", DRAFTERS)
def test_whole_numbers_of_any_type_are_fine(kind: str) -> None:
    """int32 prompts, as numpy gives them; numpy's and torch's numbers."""

    def tokens(whole: Any, dtype: torch.dtype) -> Any:
        prompt = torch.tensor([0, 1, 2, 0, 1], dtype=dtype)
        sampling = Sampling(eos_ids=[whole(3)])
        request = Request(prompt, whole(9), sampling, whole(2))
        return generate(tiny(), make_drafter(kind), request, Seeded(1))

    plain = tokens(int, torch.int64)
    assert tokens(np.int32, torch.int32) == tokens(np.uint8, torch.int64) == plain
    assert tokens(torch.tensor, torch.int32) == plain


def test_small_integer_types_do_not_overflow() -> None:
    request = Request(torch.zeros(100, dtype=torch.int32), np.uint8(200))
    assert request.limits(tiny(n_positions=500).config).max_length == 300


@given(st.integers(1, 9), st.integers(0, 9), st.integers(-3, 3), id_sequences(4, 1, 20))
def test_budget_or_context_ends_a_text_whichever_comes_first(
    n: int, fits: int, over: int, new: list[int]
) -> None:
    """`fits` tokens fit the context and one place more, for the last is never fed."""
    prompt, budget = torch.arange(n) % 4, max(0, fits + 1 + over)
    request = Request(prompt, budget, Sampling(eos_ids=(7,)))
    text = Text(request, tiny(n_positions=n + fits))
    room = min(budget, fits + 1)
    assert (text.room, text.length, text.limits.eos_ids) == (room, n, (7,))
    assert text.finish_reason == ("length" if budget == 0 else None)
    assert text.cache.capacity == max(1, n + room - 1) and text.cache.length == 0
    assert text.prefix.equal(prompt) and text.n_drafts(3) == min(3, room - 1)
    if budget:
        committed = text.commit(new)
        assert committed == tuple(new[:room]) and text.room == room - len(committed)
        assert text.prefix.tolist() == [*prompt.tolist(), *committed]
        reason = "length" if budget <= fits + 1 else "context"
        assert text.finish_reason == (None if text.room else reason)


@pytest.mark.parametrize("wrong", [2.0, -1, None])
def test_what_a_policy_returns_is_checked(wrong: Any) -> None:
    request = Request(IDS, 5, gamma=lambda past: wrong)
    with pytest.raises((TypeError, ValueError), match="gamma must be "):
        generate(tiny(), make_drafter("ngram"), request, Seeded(0))


def test_a_text_lies_where_its_target_lies() -> None:
    target = tiny(4, seed=1).to("meta")
    assert Text(Request(IDS, 5), target).prefix.device.type == "meta"

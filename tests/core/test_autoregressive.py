"""The baseline, against a loop that has no cache."""

from __future__ import annotations

from itertools import islice
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from minispec import Request, Sampling, Seeded
from minispec.core.autoregressive import autoregressive_rounds, next_probs

from support.checks import agree
from support.decoding import (
    Scripted, Situation, assert_holds, next_row, prefilled, situations, spy_on_caches,
    spy_on_feeding, tiny,
)
from support.oracles import naive_decode
from support.strategies import SEEDS, id_sequences, samplings

pytestmark = pytest.mark.exercise4


@settings(max_examples=100)
@given(at=situations())
def test_next_probs_is_the_targets_row_after_the_prefix(at: Situation) -> None:
    cache = prefilled(at.model.requires_grad_(True), at.prefix[: at.seen])
    got = next_probs(at.model, cache, at.prefix, at.sampling)
    broke = "This is not what the target says after the last token of the prefix."
    expected = next_row(at.model, at.sampling, at.prefix.tolist())
    what = {"prefix": at.prefix, "cached": at.seen, "sampling": at.sampling}
    agree(got, expected, broke, **what)
    broke = "Afterwards the cache holds the prefix."
    agree(cache.length, len(at.prefix), broke, **what)
    kept = got.requires_grad, cache.keys[0].requires_grad
    agree(kept, (False, False), "No graph is kept for gradients.")
    assert_holds(cache, at.model, at.prefix.tolist())


@given(data=st.data(), seed=SEEDS, n_new=st.integers(0, 12))
def test_it_is_the_loop_without_a_cache(data: Any, seed: int, n_new: int) -> None:
    """To the token, with the same seed; every free slot of the cache holds NaN."""
    V = data.draw(st.integers(1, 5), label="V")
    context = data.draw(st.integers(1, 10), label="context")
    prompt = data.draw(id_sequences(V, 1, context), label="prompt")
    sampling = data.draw(samplings(V), label="sampling")
    target = tiny(V, seed, context, n_layer=2)
    request, chance = Request(torch.tensor(prompt), n_new, sampling), Seeded(seed)
    expected = naive_decode(
        lambda text: next_row(target, sampling, text),
        chance.sample,
        prompt,
        n_new,
        context,
        sampling.eos_ids,
    )
    with pytest.MonkeyPatch.context() as monkeypatch:
        spy_on_caches(monkeypatch, target)
        rounds = list(autoregressive_rounds(target, request, Seeded(seed)))
    tokens = [token for one in rounds for token in one.committed]
    what = {"prompt": prompt, "n_new": n_new, "context": context, "sampling": sampling}
    broke = "The text is not that of one full pass for every token."
    agree(tokens, expected[0], broke, **what)
    agree(len(rounds), len(tokens), "Each round commits one token.", **what)
    reasons = [one.finish_reason for one in rounds]
    wanted = [*[None] * (len(tokens) - 1), expected[1]] if tokens else []
    agree(reasons, wanted, "The last round says why the text ends, the others None.")


def test_every_pass_feeds_one_token_and_the_first_the_prompt(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tiny()
    fed = spy_on_feeding(monkeypatch, target)
    heads = spy_on_feeding(monkeypatch, target, "head")
    list(autoregressive_rounds(target, Request(torch.arange(4), 4), Seeded(1)))
    broke = "The prompt of 4 is fed once, then each new token but the last."
    agree(fed, [4, 1, 1, 1], broke)
    agree(heads, [1] * 4, "Only the last row of each pass needs the head.")


@pytest.mark.parametrize("sampling", [Sampling(0), Sampling(top_k=1), Sampling()])
def test_every_token_is_drawn_through_the_randomness(sampling: Sampling) -> None:
    """Greedy ones too: one that enumerates or records must see every decision."""
    chance = Scripted()
    request = Request(torch.arange(2), 3, sampling)
    tokens = [one.extra for one in autoregressive_rounds(tiny(), request, chance)]
    broke = "Each token is drawn once, with randomness.sample(row)."
    agree(len(chance.rows), len(tokens), broke, sampling=sampling, tokens=tokens)


def test_no_step_runs_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    target = tiny()
    fed = spy_on_feeding(monkeypatch, target)
    rounds = autoregressive_rounds(target, Request(torch.arange(2), 9), Seeded(0))
    agree(len(fed), 0, "Nothing was asked for yet.")
    extras = [(one.extra, one.n_accepted, one.tokens) for one in islice(rounds, 3)]
    agree(extras, [("plain", 0, ())] * 3, "A round here has no drafts.")
    agree(len(fed), 3, "Three rounds are three passes.")

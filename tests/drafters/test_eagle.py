"""EAGLE: rows shifted by one, guesses that never outlive a round, the folded step."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from minispec import Request, Sampling, Seeded
from minispec.core.speculative import speculative_round
from minispec.core.text import Text
from minispec.drafters.eagle import Eagle, EagleDrafter
from minispec.model.gpt2 import GPT
from minispec.model.kv_cache import KVCache

from support.checks import agree
from support.decoding import Scripted, poison, tiny
from support.heads import tiny_head

KINDS = ["eagle", "eagle3"]
exercise = pytest.mark.exercise17


def drafting(kind: str, sampling: Sampling = Sampling()) -> tuple[GPT, EagleDrafter]:
    target = tiny(V=5, n_layer=3)
    head = tiny_head(kind, target)
    assert isinstance(head, Eagle)
    return target, EagleDrafter(head, target, sampling)


@torch.no_grad()
def row_by_hand(
    head: Eagle, target: GPT, sampling: Sampling, text: list[int], n_real: int
) -> Tensor:  # -> [V]
    """What the head says after `text`, without caches and without the folded step.

    The rows of the first `n_real` features are real, the others are its own guesses.
    """
    cache = target.new_cache()
    for layer in head.layers:
        cache.tap(layer)
    target(torch.tensor([text[:n_real]]), cache)
    features = head.read(target, cache.taps, slice(0, n_real))
    while True:
        tokens = torch.tensor([text[1 : features.shape[1] + 1]])  # shifted by one
        own, seen = head(features, target.wte(tokens))
        if features.shape[1] == len(text) - 1:
            return (target.head(seen)[0, -1] / sampling.temperature).softmax(dim=-1)
        features = torch.cat([features, own[:, -1:]], dim=1)


@exercise
def test_before_the_first_draft_there_is_nothing_to_roll_back() -> None:
    target, drafter = drafting("eagle")
    drafter.begin(target.new_cache())
    try:
        drafter.rollback(3)
        got: Any = f"{drafter.rows.length} rows"
    except ValueError as error:
        got = str(error)
    broke = "rollback(3) with 0 rows held: at most 3 rows may stay."
    agree(got, "0 rows", broke)


@exercise
@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_the_heads_own(kind: str) -> None:
    """Round after round, with all that was rolled back filled with NaN. Row i of the
    head's cache is (feature i, token i + 1); only the round's guesses are not real."""
    sampling = Sampling(temperature=0.7)
    target, drafter = drafting(kind, sampling)
    text = Text(Request(torch.tensor([0, 1, 4]), 18, sampling), target)
    drafter.begin(text.cache)
    chance, n_rounds = Scripted(accepts=[True, True, False] * 9), 0
    while text.finish_reason is None:
        n, gamma = text.length, text.n_drafts(3)
        before, real = text.prefix.tolist(), text.cache.length
        done = speculative_round(target, drafter, text, gamma, chance)
        poison_all(text.cache, drafter.rows)
        broke = "After a round, `rows` holds no more than real features: n - 1 of them."
        agree(drafter.rows.length <= text.length - 1, True, broke, text=before)
        if real == 0:
            broke = "There is nothing to read before the prompt was read."
            agree(done.tokens, (), broke, text=before)
            continue
        broke = "draft draws as many tokens as were asked for."
        agree(len(done.tokens), gamma, broke, text=before)
        assert done.rows is not None
        for i, row in enumerate(done.rows.draft_probs):
            so_far = [*before, *done.tokens[:i]]
            expected = row_by_hand(drafter.head, target, sampling, so_far, n - 1)
            broke = "A draft's row is not what the head says after the text so far."
            agree(row, expected, broke, text=so_far, real_features=n - 1)
        n_rounds += bool(done.tokens)
    assert n_rounds > 3


def poison_all(*caches: KVCache) -> None:
    for cache in caches:
        poison(cache)
        for rows in cache.taps.values():
            rows[:, cache.length :] = torch.nan


@exercise
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_guesses_do_not_outlive_the_round(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even those of accepted drafts: after a round only real features are left."""
    target, drafter = drafting(kind)
    cache, prefix = target.new_cache(), torch.tensor([0, 1, 2, 3])
    drafter.begin(cache)
    target(prefix[None, :-1], cache)
    passes, advance = list[int](), drafter.rows.advance

    def counted(n_new: int) -> None:
        passes.append(n_new)
        advance(n_new)

    monkeypatch.setattr(drafter.rows, "advance", counted)
    drafter.propose(prefix, 4, Seeded(0))
    what: Any = {"prefix": prefix, "gamma": 4}
    broke = "Rows after drafting: three real ones, and one for each draft but the last."
    agree(drafter.rows.length, 3 + 3, broke, **what)
    broke = "How many rows each pass adds: first the three real ones, then one by one."
    agree(passes, [3, 1, 1, 1], broke, **what)
    drafter.rollback(7)  # all four were accepted, and a bonus
    broke = "All four drafts were accepted: rollback(7) leaves the three real rows."
    agree(drafter.rows.length, 3, broke, **what)
    drafter.rollback(2)
    broke = "rollback(2) leaves two rows: it is given a length of the text."
    agree(drafter.rows.length, 2, broke, **what)
    drafter.rollback(5)
    agree(drafter.rows.length, 2, "rollback never makes the rows more.", **what)


@exercise
def test_it_reads_no_row_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each real feature goes into the head once, in the round after it is known."""
    target, drafter = drafting("eagle")
    fed: list[int] = []
    read = drafter.head.read

    def spied(target: GPT, taps: dict[int, Tensor], rows: slice) -> Tensor:
        fed.extend(range(rows.start, rows.stop))
        return read(target, taps, rows)

    monkeypatch.setattr(drafter.head, "read", spied)
    text = Text(Request(torch.tensor([0, 1, 4]), 15), target)
    drafter.begin(text.cache)
    while text.finish_reason is None:
        speculative_round(target, drafter, text, text.n_drafts(2), Seeded(text.length))
    broke = "The features of these positions were read, in this order."
    agree(fed, [*range(max(len(fed), 10))], broke)

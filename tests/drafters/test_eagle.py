"""EAGLE: rows shifted by one, guesses that never outlive a round, the folded step."""

from __future__ import annotations

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


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_the_heads_own(kind: str) -> None:
    """Round after round, with all that was rolled back filled with NaN."""
    sampling = Sampling(temperature=0.7)
    target, drafter = drafting(kind, sampling)
    text = Text(Request(torch.tensor([0, 1, 4]), 18, sampling), target)
    drafter.begin(text.cache)
    chance, n_rounds = Scripted(accepts=[True, True, False] * 9), 0
    while text.finish_reason is None:
        n = text.length
        before, real = text.prefix.tolist(), text.cache.length
        done = speculative_round(target, drafter, text, text.n_drafts(3), chance)
        poison_all(text.cache, drafter.rows)
        assert drafter.rows.length <= text.length - 1
        if real == 0:
            assert done.tokens == (), "nothing to read before the prompt was read"
            continue
        assert done.rows is not None
        for i, row in enumerate(done.rows.draft_probs):
            so_far = [*before, *done.tokens[:i]]
            expected = row_by_hand(drafter.head, target, sampling, so_far, n - 1)
            broke = "A draft's row is not what the head says after the text so far."
            agree(row, expected, broke, text=so_far)
        n_rounds += bool(done.tokens)
    assert n_rounds > 3


def poison_all(*caches: KVCache) -> None:
    for cache in caches:
        poison(cache)
        for rows in cache.taps.values():
            rows[:, cache.length :] = torch.nan


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_guesses_do_not_outlive_the_round(kind: str) -> None:
    """Not even those of accepted drafts: after a round only real features are left."""
    target, drafter = drafting(kind)
    cache, prefix = target.new_cache(), torch.tensor([0, 1, 2, 3])
    drafter.begin(cache)
    target(prefix[None, :-1], cache)
    drafter.propose(prefix, 4, Seeded(0))
    assert drafter.rows.length == 3 + 3, "three real rows, and all drafts but the last"
    drafter.rollback(7)  # all four were accepted, and a bonus
    assert drafter.rows.length == 3


def test_it_reads_no_row_twice(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert fed == list(range(len(fed))) and len(fed) > 9

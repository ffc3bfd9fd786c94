"""The ragged cache alone: where rows are written, what they see, and that no row of a
padded pass depends on its neighbours."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import DrawFn

from minispec.batches.ragged_cache import RaggedCache, ragged_mask, ragged_pass
from minispec.model.kv_cache import KVCache

from support.checks import agree
from support.decoding import tiny
from support.strategies import SEEDS

exercise = pytest.mark.exercise20
LONGEST, STALE = 5, 7.0  # what a slot holds that is not in use


@st.composite
def batches(draw: DrawFn) -> tuple[list[int], list[int]]:
    """For one to three rows: how many tokens are cached, and how many are new."""
    sizes = st.tuples(st.integers(0, LONGEST), st.integers(0, 3))
    rows = draw(st.lists(sizes, min_size=1, max_size=3).filter(one_is_new))
    lengths, n_new = zip(*rows)
    return [*lengths], [*n_new]


def one_is_new(rows: list[tuple[int, int]]) -> bool:
    return any(n for _, n in rows)


def stale_cache(lengths: list[int], like: KVCache) -> RaggedCache:
    """Rows of these lengths, one row more that is free, and stale numbers all over."""
    for rows in (*like.keys, *like.values):
        rows.fill_(STALE)
    cache = RaggedCache(like)
    for length in lengths:
        cache.join().length = length
    return cache


# --------------------------------------------------------------------------- the pass


@exercise
@settings(max_examples=60)
@given(batches(), SEEDS)
def test_each_rows_logits_are_those_of_its_text_alone(
    one: tuple[list[int], list[int]], seed: int
) -> None:
    """Whatever its neighbours' lengths, the padding, and what was in the cache."""
    lengths, n_new = one
    model, noise = tiny(5, seed, n_layer=2), torch.Generator().manual_seed(seed)
    sizes = [S + n for S, n in zip(lengths, n_new)]
    texts = [torch.randint(5, (size,), generator=noise) for size in sizes]
    cache = stale_cache(lengths, model.new_cache(12, batch=len(texts) + 1))
    what: Any = {"texts": [text.tolist() for text in texts], "cached": lengths}
    with torch.inference_mode():
        for b, S in enumerate(lengths):
            if S:
                cache.rows[b].length = 0
                model(texts[b][None, :S], cache.rows[b])
        new = [text[S:] for text, S in zip(texts, lengths)]
        logits = ragged_pass(model, cache, new)
        for b, (text, n) in enumerate(zip(texts, n_new)):
            own = model(text[None])[0, len(text) - n :] if n else logits[b, :0]
            broke = f"Row {b} gets other logits than its text gets alone."
            agree(logits[b, :n], own, broke, **what)
    found = [row.length for row in cache.rows[: len(texts)]]
    agree(found, sizes, "Each row holds its own text.", **what)


# -------------------------------------------------------------------------- the parts


@exercise
@given(batches())
def test_a_new_token_sees_the_slots_of_its_row_up_to_its_own(
    one: tuple[list[int], list[int]]
) -> None:
    """Beyond it is padding, or what a longer text left there."""
    lengths, n_new = one
    model = tiny(5)
    cache = stale_cache(lengths, model.new_cache(12, batch=3 + 1))
    slots, n_all = cache.begin_pass(n_new), max(lengths) + max(n_new)
    hidden = [[[[o > own for o in range(n_all)] for own in row]] for row in slots]
    zeros = torch.zeros(len(lengths), 1, max(n_new), n_all, dtype=torch.float64)
    expected = zeros.masked_fill(torch.tensor(hidden), -torch.inf)
    found, what = ragged_mask(cache, model), {"lengths": lengths, "slots": slots}
    broke = "Token i of row b sees the slots up to slots[b, i], and none after it."
    agree(found, expected, broke, **what)
    agree(found.dtype, torch.float64, "The mask has the type of the weights.", **what)


@exercise
@given(batches(), st.integers(0, 1))
def test_each_row_is_written_after_its_own_length(
    one: tuple[list[int], list[int]], layer: int
) -> None:
    """The rest of the row is as it was, and so are free rows and other layers."""
    lengths, n_new = one
    B, T, n_all = len(lengths), max(n_new), max(lengths) + max(n_new)
    cache = stale_cache(lengths, KVCache(2, 2, 1, 9, B + 1, torch.float64))
    slots = cache.begin_pass(n_new)
    new = torch.arange(1.0, 1 + 4 * B * T).double().view(2, B, 2, T, 1)
    expected = torch.full((2, 2, B + 1, 2, 9, 1), STALE).double()
    for b, row in enumerate(slots.tolist()):
        for i, slot in enumerate(row):
            expected[:, layer, b, :, slot] = new[:, b, :, i]
    back = cache.append(layer, *new.clone())
    what: Any = {"layer": layer, "lengths": lengths, "slots": slots}
    memories = {"keys": cache.keys, "values": cache.values}
    for (name, memory), rows, wanted in zip(memories.items(), back, expected):
        broke = f"Not each row's {name} of the slots 0 to {n_all - 1} came back."
        agree(rows, wanted[layer, :B, :, :n_all], broke, **what)
        broke = f"The {name} of some other slot, row or layer were changed."
        agree(torch.stack(memory), wanted, broke, **what)
        shared = rows.data_ptr() == memory[layer].data_ptr()
        agree(shared, True, "A view comes back: it shares the cache's memory.", **what)
    lengths_now = [row.length for row in cache.rows[:B]], cache.length
    agree(lengths_now, (lengths, max(lengths)), "append moves no length.", **what)

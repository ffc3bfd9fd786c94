"""The cache is a list that can be cut: nothing lost, nothing stale, nothing moved."""

from __future__ import annotations

from functools import partial
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from torch import Tensor

from minispec.kv_cache import KVCache

from strategies import Case, cases, id_sequences, splits
from under_test import under_test

same = partial(torch.testing.assert_close, rtol=0, atol=1e-12)  # in float64
SHAPES = st.tuples(*[st.integers(1, 3)] * 4)  # L, B, H, D
TYPES = st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16])


def held(cache: KVCache) -> Tensor:  # [2, L, B, H, S, D]
    """Copies of the keys and values that count."""
    both = [torch.stack(rows) for rows in (cache.keys, cache.values)]
    return torch.stack(both)[..., : cache.length, :].clone()


def poison_free_slots(cache: KVCache) -> None:
    """NaN in every slot at and beyond `length`: whoever reads one is found out."""
    for tensor in [*cache.keys, *cache.values]:
        tensor[:, :, cache.length :] = torch.nan


def prefill(model: Any, ids: Tensor) -> tuple[KVCache, Tensor]:
    cache = model.new_cache()
    return cache, model(ids, cache)


# -------------------------------------------------------------------- under a model


@pytest.mark.exercise3
@given(case=cases())
def test_any_split_leaves_what_one_prefill_leaves(impl: Any, case: Case) -> None:
    model = under_test(impl, case.model())
    cache = model.new_cache()
    poison_free_slots(cache)
    for block in case.blocks:
        model(block, cache)
    fresh, _ = prefill(case.model(), case.ids)
    assert cache.length == fresh.length == len(case.tokens)
    same(held(cache), held(fresh))


@pytest.mark.exercise9
@given(case=cases(), data=st.data())
def test_truncate_and_go_on_is_a_fresh_prefill_of_that_sequence(
    impl: Any, case: Case, data: Any
) -> None:
    model, config = under_test(impl, case.model()), case.config
    keep = data.draw(st.integers(0, len(case.tokens)), label="keep")
    cache, _ = prefill(model, case.ids)
    cache.truncate(keep)
    poison_free_slots(cache)  # the rolled-back slots, and those never written

    room = config.n_positions - keep
    other = data.draw(id_sequences(config.vocab_size, 0, room), label="other")
    ids = torch.tensor([case.tokens[:keep] + other], dtype=torch.long)
    logits = []
    for block in ids[:, keep:].split(data.draw(splits(len(other))), dim=1):
        if block.shape[1]:
            logits.append(model(block, cache))

    assert cache.length == keep + len(other)
    if cache.length:
        fresh, expected = prefill(model, ids)
        same(held(cache), held(fresh))
    if logits:
        same(torch.cat(logits, 1), expected[:, keep:])


@given(cases())
def test_storage_never_moves_and_attention_reads_it_in_place(case: Case) -> None:
    """No step reallocates or copies the past: attention gets views of the slots."""
    seen: list[tuple[int, int, tuple[int, ...]]] = []

    def spy(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> Tensor:
        seen.append((key.data_ptr(), value.data_ptr(), key.stride()))
        return query

    model = case.model(attend=spy)
    cache = model.new_cache()
    home = [
        (keys.data_ptr(), values.data_ptr(), keys.stride())
        for keys, values in zip(cache.keys, cache.values)
    ]
    for block in case.blocks:
        model(block, cache)
    cache.truncate(0)
    model(case.ids, cache)
    assert seen == home * (len(case.blocks) + 1)


# ----------------------------------------------------------------------- on its own


class CacheIsAList(RuleBasedStateMachine):
    """Any sequence of calls, against one plain list of positions.

    Each position is one tensor [2, L, B, H, D] (keys, then values) of numbers used
    nowhere else, so that a row in a wrong place cannot pass.
    """

    L, B, H, D, CAPACITY = 2, 2, 3, 2, 6
    make_cache: Any = KVCache

    def __init__(self) -> None:
        super().__init__()
        shape = self.L, self.H, self.D, self.CAPACITY, self.B, torch.float64
        self.cache = type(self).make_cache(*shape)
        poison_free_slots(self.cache)
        self.positions: list[Tensor] = []
        self.used = 0

    def fresh_positions(self, n_new: int) -> list[Tensor]:
        shape = 2, self.L, self.B, self.H, self.D
        size = torch.Size(shape).numel()
        rows = []
        for _ in range(n_new):
            numbers = torch.arange(self.used, self.used + size, dtype=torch.float64)
            rows.append(numbers.view(shape))
            self.used += size
        return rows

    def append(self, new: list[Tensor], layers: int) -> None:
        """Append to the first `layers` layers and check what each call returns."""
        both = torch.stack(new, dim=-2)  # [2, L, B, H, T, D]
        everything = torch.stack(self.positions + new, dim=-2)
        for layer in range(layers):
            returned = self.cache.append(layer, both[0, layer], both[1, layer])
            for rows, expected in zip(returned, everything[:, layer]):
                assert torch.equal(rows, expected)

    @property
    def room(self) -> int:
        return self.CAPACITY - len(self.positions)

    @precondition(lambda self: self.room > 0)
    @rule(data=st.data())
    def step(self, data: Any) -> None:
        new = self.fresh_positions(data.draw(st.integers(1, self.room)))
        self.append(new, self.L)
        self.cache.advance(len(new))
        self.positions += new

    @precondition(lambda self: self.room > 0)
    @rule(data=st.data(), layers=st.integers(1, L))
    def step_given_up_before_advance(self, data: Any, layers: int) -> None:
        self.append(self.fresh_positions(data.draw(st.integers(1, self.room))), layers)

    @rule(data=st.data())
    def truncate(self, data: Any) -> None:
        length = data.draw(st.integers(0, len(self.positions)))
        self.cache.truncate(length)
        del self.positions[length:]

    @rule(excess=st.integers(1, 3), layer=st.integers(0, L - 1))
    def overflow(self, excess: int, layer: int) -> None:
        n_new = self.room + excess
        both = torch.stack(self.fresh_positions(n_new), dim=-2)
        needed = f"holds 6 positions and {6 + excess} are needed"
        with pytest.raises(ValueError, match=needed):
            self.cache.append(layer, both[0, layer], both[1, layer])

    @rule(beyond=st.integers(1, 3), negative=st.integers(-3, -1))
    def truncate_out_of_bounds(self, beyond: int, negative: int) -> None:
        for length in (len(self.positions) + beyond, negative):
            with pytest.raises(ValueError, match=f"cannot truncate to {length}: "):
                self.cache.truncate(length)

    @invariant()
    def holds_the_list(self) -> None:
        assert self.cache.length == len(self.positions)
        if self.positions:
            expected = torch.stack(self.positions, dim=-2)
            assert torch.equal(held(self.cache), expected)


@pytest.mark.exercise3
@pytest.mark.exercise9
def test_the_cache_is_a_list(impl: Any) -> None:
    class Machine(CacheIsAList):
        make_cache = impl.kv_cache.KVCache

    run_state_machine_as_test(Machine)


@pytest.mark.exercise3
@given(shape=SHAPES, dtype=TYPES, data=st.data())
def test_append_returns_views_into_storage_that_never_moves(
    impl: Any, shape: tuple[int, int, int, int], dtype: torch.dtype, data: Any
) -> None:
    L, B, H, D = shape
    cache = impl.kv_cache.KVCache(L, H, D, capacity=5, batch=B, dtype=dtype)
    home = [tensor.data_ptr() for tensor in cache.keys + cache.values]
    for n_new in data.draw(splits(5)):
        for layer in range(L):
            rows = torch.ones(B, H, n_new, D, dtype=dtype)
            key, value = cache.append(layer, rows, 2 * rows)
            assert key.shape == value.shape == (B, H, cache.length + n_new, D)
            assert key.data_ptr() == home[layer]
            assert value.data_ptr() == home[L + layer]
        cache.advance(n_new)
        if data.draw(st.booleans()):
            cache.truncate(cache.length - n_new)
            cache.advance(n_new)  # the rows are still there: nothing was cleared
    assert [tensor.data_ptr() for tensor in cache.keys + cache.values] == home
    assert (held(cache)[0] == 1).all() and (held(cache)[1] == 2).all()


@given(SHAPES, TYPES, st.integers(1, 9))
def test_bytes_per_token_account_for_all_the_memory(
    shape: tuple[int, int, int, int], dtype: torch.dtype, capacity: int
) -> None:
    L, B, H, D = shape
    cache = KVCache(L, H, D, capacity, B, dtype)
    assert cache.bytes_per_token == 2 * L * H * D * dtype.itemsize
    allocated = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in cache.keys + cache.values
    }
    assert sum(allocated.values()) == cache.bytes_per_token * capacity * B


def test_gpt2_small_takes_36_kib_a_token_in_float16() -> None:
    cache = KVCache(12, 12, 64, capacity=1, dtype=torch.float16)
    assert cache.bytes_per_token == 36 * 1024


def test_all_of_a_cache_lies_on_the_device_asked_for() -> None:
    """For one sequence in float32, unless told otherwise. The device `meta` has shapes
    and no numbers: every machine has it."""
    cache = KVCache(2, 1, 3, 4, device="meta")
    for tensor in cache.keys + cache.values:
        assert tensor.device.type == "meta" and tensor.shape == (1, 1, 4, 3)
        assert tensor.dtype == torch.float32


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_cache_without_room_is_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1 position, got {capacity}"):
        KVCache(1, 1, 1, capacity)


@pytest.mark.exercise9
def test_truncate_may_keep_all_or_nothing_but_not_more_than_is_held(impl: Any) -> None:
    cache = impl.kv_cache.KVCache(1, 1, 1, capacity=8)
    cache.append(0, torch.ones(1, 1, 3, 1), torch.ones(1, 1, 3, 1))
    cache.advance(3)
    cache.truncate(3)
    assert cache.length == 3
    with pytest.raises(ValueError, match="truncate to 4: the cache holds 3 positions"):
        cache.truncate(4)  # there are slots, but nothing in them
    cache.truncate(0)
    assert cache.length == 0
    with pytest.raises(ValueError, match="truncate to 1: the cache holds 0 positions"):
        cache.truncate(1)

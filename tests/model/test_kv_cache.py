"""The cache is a list that can be cut: nothing lost, nothing stale, nothing moved."""

from __future__ import annotations

from functools import partial
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from hypothesis.stateful import (
    RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test,
)
from torch import Tensor

from minispec.model.attention import open_attention
from minispec.model.kv_cache import KVCache

from support.checks import agree, value_error
from support.decoding import held, poison, prefilled, tiny
from support.strategies import Case, cases, id_sequences

# ----------------------------------------------------------------------- on its own


class CacheIsAList(RuleBasedStateMachine):
    """Any sequence of calls, against one plain list of positions.

    Each position is one tensor [2, L, B, H, D] (keys, then values) of numbers used
    nowhere else, so that a row in a wrong place cannot pass.
    """

    L, B, H, D, CAPACITY = 2, 2, 3, 2, 6

    def __init__(self) -> None:
        super().__init__()
        shape = self.L, self.H, self.D, self.CAPACITY, self.B, torch.float64
        self.cache = KVCache(*shape)
        self.cache.tap(1)
        self.home = [rows.data_ptr() for rows in self.cache.keys + self.cache.values]
        poison(self.cache)
        self.positions: list[Tensor] = []
        self.used = 0

    def append(self, n_new: int, layers: int) -> list[Tensor]:
        """Append to the first `layers` layers and check what each call returns."""
        shape = n_new, 2, self.L, self.B, self.H, self.D
        size = torch.Size(shape).numel()
        numbers = torch.arange(self.used, self.used + size, dtype=torch.float64)
        self.used += size
        new = list(numbers.view(shape))
        both = torch.stack(new, dim=-2)  # [2, L, B, H, T, D]
        everything = torch.stack(self.positions + new, dim=-2)
        for layer in range(layers):
            returned = self.cache.append(layer, both[0, layer], both[1, layer])
            broke = "append returns all the layer's rows: the cached and the new ones."
            what = {"layer": layer, "cached": len(self.positions), "new": n_new}
            agree(len(returned or ()), 2, "append returns keys and values.", **what)
            for rows, expected in zip(returned, everything[:, layer]):
                agree(rows, expected, broke, **what)
            hidden = both[0, layer].transpose(1, 2).flatten(2)  # keys, as [B, T, E]
            self.cache.record(layer, hidden)
            at = [rows.data_ptr() for rows in returned]
            broke = "append returned copies: attention should read the slots."
            agree(at == self.home[layer :: self.L], True, broke, **what)
        return new

    @property
    def room(self) -> int:
        return self.CAPACITY - len(self.positions)

    @precondition(lambda self: self.room > 0)
    @rule(data=st.data())
    def step(self, data: Any) -> None:
        new = self.append(data.draw(st.integers(1, self.room)), self.L)
        self.cache.advance(len(new))
        self.positions += new

    @precondition(lambda self: self.room > 0)
    @rule(data=st.data(), layers=st.integers(1, L))
    def step_given_up_before_advance(self, data: Any, layers: int) -> None:
        self.append(data.draw(st.integers(1, self.room)), layers)

    @rule(data=st.data())
    def truncate(self, data: Any) -> None:
        length = data.draw(st.integers(0, len(self.positions)))
        self.cache.truncate(length)
        del self.positions[length:]

    @rule(data=st.data())
    def keep(self, data: Any) -> None:
        length = data.draw(st.integers(0, len(self.positions)))
        order = data.draw(st.permutations(range(length, len(self.positions))))
        slots = order[: data.draw(st.integers(0, len(order)))]
        self.cache.keep(length, torch.tensor(slots, dtype=torch.long))
        self.positions[length:] = [self.positions[slot] for slot in slots]

    @rule(beyond=st.integers(1, 3), layer=st.integers(0, L - 1))
    def what_does_not_fit_is_an_error(self, beyond: int, layer: int) -> None:
        rows = torch.zeros(self.B, self.H, self.room + beyond, self.D)
        held, new = len(self.positions), self.room + beyond
        with value_error(capacity=self.CAPACITY, held=held, appended=new):
            self.cache.append(layer, rows, rows)
        for length in (len(self.positions) + beyond, -beyond):
            with value_error(held=held, truncate_to=length):
                self.cache.truncate(length)
            with pytest.raises(ValueError, match=f"cannot keep {length} positions"):
                self.cache.keep(length, torch.empty(0, dtype=torch.long))
        with pytest.raises(ValueError, match="cannot keep 0 positions and then "):
            self.cache.keep(0, torch.tensor([len(self.positions)]))

    @invariant()
    def holds_the_list(self) -> None:
        n = len(self.positions)
        agree(self.cache.length, n, "length is the number of positions held.")
        if self.positions:
            expected = torch.stack(self.positions, dim=-2)
            agree(held(self.cache), expected, "Other keys and values are held.")
            hidden = expected[0, 1].transpose(1, 2).flatten(2)
            agree(self.cache.taps[1][:, :n], hidden, "The tap holds something else.")


@pytest.mark.exercise3
@pytest.mark.exercise9
def test_the_cache_is_a_list() -> None:
    run_state_machine_as_test(CacheIsAList)


def test_what_does_not_fit_is_named() -> None:
    cache, rows = KVCache(1, 1, 1, 6), torch.zeros(1, 1, 7, 1)
    with pytest.raises(ValueError, match="holds 6 positions and 7 are needed"):
        cache.append(0, rows, rows)
    with pytest.raises(ValueError, match="cannot truncate to 1: .* holds 0 positions"):
        cache.truncate(1)


@pytest.mark.parametrize(
    "slots, says",
    [
        (torch.tensor([True, True]), "int64, .*, got torch.bool"),  # a mask to torch
        (torch.tensor([1], dtype=torch.uint8), "got torch.uint8"),  # another
        (torch.tensor([1.0]), "got torch.float32"),
        (torch.tensor(1), r"of \[\]"),
        (torch.tensor([[1]]), r"of \[1, 1\]"),
        (torch.tensor([1, 1]), "then .1, 1.: .* can be kept once"),
    ],
)
def test_slots_that_cannot_be_kept_are_named(slots: torch.Tensor, says: str) -> None:
    cache = KVCache(1, 1, 1, 6)
    cache.advance(3)
    with pytest.raises(ValueError, match=says):
        cache.keep(1, slots)
    assert cache.length == 3


def test_a_length_is_a_whole_number_of_any_type_and_stays_an_int() -> None:
    cache, none = KVCache(1, 1, 1, 6), torch.empty(0, dtype=torch.long)
    cache.advance(4)
    for length in (2.0, "2", None):
        for shorten in (cache.truncate, partial(cache.keep, slots=none)):
            with pytest.raises(TypeError):
                shorten(length)  # type: ignore[arg-type]
    cache.keep(torch.tensor(3), none)  # type: ignore[arg-type]
    assert type(cache.length) is int and cache.length == 3
    cache.truncate(torch.tensor(2))  # type: ignore[arg-type]
    assert type(cache.length) is int and cache.length == 2


def test_a_view_is_a_second_length_over_the_same_memory() -> None:
    cache, rows = KVCache(1, 1, 1, 4), torch.ones(1, 1, 2, 1)
    cache.tap(0)
    view = cache.view()
    view.append(0, rows, 2 * rows)
    view.advance(2)
    assert (cache.length, view.length) == (0, 2)
    cache.advance(2)
    assert held(cache).flatten().tolist() == [1, 1, 2, 2]
    view.truncate(1)
    assert cache.length == 2 and view.taps is cache.taps


@pytest.mark.parametrize("layer", [-1, 1])
def test_a_tap_keeps_a_layers_output_under_the_caches_length(layer: int) -> None:
    """Layer 1's output goes into `ln_f`: the head's input can be computed from it."""
    model, ids = tiny(n_layer=2), torch.tensor([[0, 3, 1, 2]])
    cache = model.new_cache()
    cache.tap(layer)
    model(ids[:, :3], cache)
    cache.truncate(2)
    model(ids[:, 2:], cache)
    (hidden,) = cache.taps.values()
    agree(model.head(model.ln_f(hidden[:, :4])), model(ids), "Not layer 1's output.")
    with pytest.raises(ValueError, match="only an empty cache .* holds 4 positions"):
        cache.tap(0)
    with pytest.raises(IndexError):
        model.new_cache().tap(2)


@given(st.tuples(*[st.integers(1, 3)] * 4), st.integers(1, 9))
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_memory_is_a_tensor_for_each_layer_and_bytes_per_token_count_it(
    dtype: torch.dtype, shape: tuple[int, int, int, int], capacity: int
) -> None:
    L, B, H, D = shape
    cache = KVCache(L, H, D, capacity, B, dtype)
    tensors = cache.keys + cache.values
    assert len({tensor.data_ptr() for tensor in tensors}) == 2 * L
    assert {tensor.shape for tensor in tensors} == {(B, H, capacity, D)}
    allocated = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
    assert allocated == cache.bytes_per_token * capacity * B
    assert cache.bytes_per_token == 2 * L * H * D * dtype.itemsize
    assert not any(tensor.any() for tensor in tensors)  # no NaN that a mask would meet


def test_by_default_a_cache_is_for_one_sequence_in_float32_on_the_device() -> None:
    cache = KVCache(2, 1, 3, 4, device="meta")
    for tensor in cache.keys + cache.values:
        assert tensor.device.type == "meta" and tensor.shape == (1, 1, 4, 3)
        assert tensor.dtype == torch.float32
    assert cache.device.type == "meta"
    with pytest.raises(ValueError, match="at least 1 position, got 0"):
        KVCache(1, 1, 1, 0)


# -------------------------------------------------------------------- under a model


@pytest.mark.exercise3
@pytest.mark.exercise9
@given(case=cases(), data=st.data())
def test_feed_truncate_and_go_on_is_a_fresh_prefill_of_that_sequence(
    case: Case, data: Any
) -> None:
    """Block by block, with NaN in every free slot."""
    model, context = case.model(attend=open_attention), case.config.n_positions
    cache = prefilled(model, torch.tensor([], dtype=torch.long))
    for block in case.blocks:
        model(block, cache)
    what = {"blocks": case.split}
    broke = "Blocks fed one after the other leave other rows than one pass."
    agree(held(cache), held(prefilled(model, case.ids[0])), broke, **what)

    length = data.draw(st.integers(0, len(case.tokens)), label="truncated to")
    cache.truncate(length)
    poison(cache)
    new = data.draw(id_sequences(case.config.vocab_size, 0, context - length))
    ids = torch.tensor(case.tokens[:length] + new, dtype=torch.long)
    if new:
        logits = model(ids[None, length:], cache)
        broke = "After truncate the model does not go on as if nothing had been."
        expected = model(ids[None])[:, length:]
        agree(logits, expected, broke, **what, length=length, then=new)
    agree(cache.length, len(ids), "The cache holds the whole text.", **what)
    agree(held(cache), held(prefilled(model, ids)), broke, **what, length=length)


def test_gradients_flow_through_a_cached_pass() -> None:
    """The layers' tensors are their own: no view that was made without gradients."""
    model = tiny(n_layer=2).requires_grad_(True)
    ids = torch.tensor([[0, 1, 2]])
    cached, plain = model(ids, model.new_cache()), model(ids)
    agree(cached.detach(), plain.detach(), "The cache changes the logits.")
    gradients = [
        torch.autograd.grad(logits.square().sum(), model.wte.weight)[0]
        for logits in (cached, plain)
    ]
    agree(*gradients, "The cache changes the gradients.", tolerance=1e-9)

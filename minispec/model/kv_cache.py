"""The KV cache: what attention has already computed about the past, kept.

A causal transformer's keys and values at position i depend on tokens 0..i only. Once
computed they never change, so a decoder keeps them and feeds the model new tokens
alone. One `KVCache` belongs to one model and one sequence (or one batch of equally
long ones) and is allocated once, two tensors for each layer:

    slot      0   1   2   3   4   5   6   7          capacity = 8
    holds     k0  k1  k2  k3  ..  ..  ..  ..         length   = 4
              `- the past -'  `- free slots

`append` writes after `length`, `advance` moves `length` on when every layer has
written, `truncate` moves it back. Nothing is ever cleared: slots at and beyond `length`
may hold stale rows, which are never read and are overwritten by the next append.
That is why taking back rejected tokens costs nothing (see `core/rollback.py`).

Drafters that look into the target's mind need three things more: `tap` keeps hidden
states beside the keys and values, under the same length, so that they roll back with
it; `view` is a second length over the same memory; `keep` moves scattered rows
together.

Left out: batches whose rows differ in length, paging, and sliding windows.
"""

from __future__ import annotations

import copy
import operator

import torch
from torch import Tensor


class KVCache:
    """Keys and values of one model: L layers of [B, H, capacity, D].

    `length` (S) is the number of positions held, the same for every layer and row.
    `taps` holds the outputs [B, capacity, E] of the layers that were tapped.
    """

    def __init__(
        self,
        n_layer: int,
        n_head: int,
        head_width: int,
        capacity: int,
        batch: int = 1,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1 position, got {capacity}")
        shape = (batch, n_head, capacity, head_width)

        # Zeros, not whatever was in memory: we never read a free slot, but attention
        # that masks instead of slicing would, and 0 * NaN is NaN.
        def layers() -> list[Tensor]:
            return [
                torch.zeros(shape, dtype=dtype, device=device) for _ in range(n_layer)
            ]

        self.keys, self.values = layers(), layers()
        self.taps: dict[int, Tensor] = {}
        self.capacity = capacity
        self.length = 0

    @property
    def device(self) -> torch.device:
        """Where the rows lie."""
        return self.keys[0].device

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write one layer's new rows [B, H, T, D]; return all its rows [B, H, S+T, D].

        `length` does not move until `advance`, since every layer of the same forward
        pass writes to the same slots.
        """
        end = self.length + key.shape[2]
        if end > self.capacity:
            raise ValueError(
                f"the cache holds {self.capacity} positions and {end} are needed: "
                "allocate a larger one or stop earlier"
            )
        keys, values = self.keys[layer], self.values[layer]
        keys[:, :, self.length : end] = key
        values[:, :, self.length : end] = value
        return keys[:, :, :end], values[:, :, :end]

    def advance(self, n_new: int) -> None:
        """Count `n_new` appended positions as held."""
        self.length += n_new

    def truncate(self, length: int) -> None:
        """Hold the first `length` positions only; the rest become free slots.

        Raises ValueError for a length that is not held, TypeError for no whole number.
        """
        length = operator.index(length)
        if not 0 <= length <= self.length:
            raise ValueError(
                f"cannot truncate to {length}: the cache holds {self.length} positions"
            )
        self.length = length

    def tap(self, layer: int) -> None:
        """From now on, keep the output of `layer` in `taps`; the cache must be empty.

        Raises ValueError for a cache that already holds positions, whose outputs are
        gone, and IndexError for a layer that is not there.
        """
        if self.length:
            raise ValueError(
                f"only an empty cache can be tapped: this one holds {self.length} "
                "positions whose hidden states are gone"
            )
        layer = range(len(self.keys))[layer]  # -1 is the last
        B, H, capacity, D = self.keys[layer].shape
        self.taps.setdefault(layer, self.keys[layer].new_zeros(B, capacity, H * D))

    def record(self, layer: int, hidden: Tensor) -> None:  # [B, T, E]
        """Write a tapped layer's new rows, where `append` writes its keys."""
        if layer in self.taps:
            end = self.length + hidden.shape[1]
            self.taps[layer][:, self.length : end] = hidden

    def keep(self, length: int, slots: Tensor) -> None:
        """Hold the first `length` positions, then the rows at `slots` [N], in order.

        For trees of drafts: of many rows after `length`, those of the accepted path
        stay and move together. Raises ValueError for slots that are not held, and for
        one that is named twice; TypeError for a length that is no whole number.
        """
        length = operator.index(length)
        if slots.ndim != 1 or slots.dtype != torch.int64:  # a bool is a mask to torch
            raise ValueError(
                f"slots must be int64, [N], got {slots.dtype} of {list(slots.shape)}"
            )
        wanted = slots.tolist()
        held = set(range(length, self.length)).issuperset(wanted)
        if not 0 <= length <= self.length or not held or len(set(wanted)) < len(wanted):
            raise ValueError(
                f"cannot keep {length} positions and then {wanted!s:.80}: the cache "
                f"holds {self.length} positions, and each can be kept once"
            )
        end = length + len(slots)
        for rows in (*self.keys, *self.values):
            rows[:, :, length:end] = rows[:, :, slots]
        for rows in self.taps.values():
            rows[:, length:end] = rows[:, slots]
        self.length = end

    def view(self) -> KVCache:
        """A second length over the same memory: layers of one model may run ahead."""
        return copy.copy(self)

    @property
    def bytes_per_token(self) -> int:
        """Bytes one token of one sequence takes: all layers, keys and values."""
        row = self.keys[0][0, :, 0]
        return 2 * len(self.keys) * row.numel() * row.element_size()

"""A cache for texts of different lengths, and the padded pass that fills it.

A batch goes through a model as one rectangle, but its texts are not equally long, and
each round adds another number of tokens to each:

    row 0    k0 k1 k2 k3 k4 n0 n1 p       length 5, 2 new tokens, 1 of padding
    row 1    k0 k1 n0 n1 n2 .  .  .       length 2, 3 new tokens

Every row is written after its own length, has its own positions, and sees its own past:
the mask hides from a new token every slot after its own. Padding is written too, into
free slots, where it is stale like anything rolled back. So no row depends on its
neighbours, and a row is a `KVCache` like any other, a view of its part of the memory:
prefill, rollback and truncation are those of a single text.

Left out: taps (a drafter that reads the target's hidden states drafts one text at a
time, and is told so) and paging, which production engines use in place of equal rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from minispec.model.gpt2 import GPT
from minispec.model.kv_cache import KVCache


class RaggedCache(KVCache):
    """`rows[b]` is the cache of text b; the first `n_rows` of them are in use."""

    def __init__(self, memory: KVCache) -> None:
        """`memory`: an empty cache with a row for each text."""
        self.keys, self.values, self.taps = memory.keys, memory.values, {}
        self.capacity, self.length, self.n_rows = memory.capacity, 0, 0
        self.rows = [TextRow(memory, b) for b in range(len(self.keys[0]))]

    def join(self) -> KVCache:
        """The next free row, empty, for a new text."""
        row = self.rows[self.n_rows]
        row.truncate(0)
        self.n_rows += 1
        return row

    def leave(self, b: int) -> KVCache:
        """Row b is free; the last row in use moves there, and is returned."""
        self.n_rows -= 1
        place, last = self.rows[b], self.rows[self.n_rows]
        S = place.length = last.length
        for to, rows in zip((*place.keys, *place.values), (*last.keys, *last.values)):
            to[:, :, :S] = rows[:, :, :S]
        return place

    def begin_pass(self, n_new: Sequence[int]) -> Tensor:  # -> slots [n_rows, T]
        """Where the new tokens of each row go, padded to the longest."""
        self.n_new, T = n_new, max(n_new)
        lengths = [row.length for row in self.rows[: self.n_rows]]
        self.length = max(lengths)
        device = self.device
        starts = torch.tensor(lengths, device=device)[:, None]
        self.slots = starts + torch.arange(T, device=device)
        return self.slots

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write each row's new keys and values [B, H, T, D] after its own length."""
        B, end = len(key), self.length + key.shape[2]
        rows = torch.arange(B, device=key.device)[:, None]
        keys, values = self.keys[layer], self.values[layer]
        keys[rows, :, self.slots] = key.transpose(1, 2)
        values[rows, :, self.slots] = value.transpose(1, 2)
        return keys[:B, :, :end], values[:B, :, :end]

    def advance(self, n_new: int) -> None:
        """Count each row's new positions as held, without the padding."""
        for row, n in zip(self.rows, self.n_new):
            row.advance(n)


class TextRow(KVCache):
    """Row b as a cache of its own, over the same memory."""

    def __init__(self, memory: KVCache, b: int) -> None:
        vars(self).update(vars(memory))
        self.keys = [keys[b : b + 1] for keys in memory.keys]
        self.values = [values[b : b + 1] for values in memory.values]
        self.taps = {}

    def tap(self, layer: int) -> None:
        raise ValueError(
            "a batch keeps no hidden states: a drafter that reads them drafts one text "
            "at a time (minispec.generate)"
        )


@torch.inference_mode()
def ragged_pass(model: GPT, cache: RaggedCache, new: Sequence[Tensor]) -> Tensor:
    """Feed row b the tokens new[b], perhaps none: logits [B, T, V], padding included.

    The logits after token i of row b are [b, i].
    """
    slots = cache.begin_pass([len(tokens) for tokens in new])
    ids = pad_sequence(list(new), batch_first=True)
    last = model.config.n_positions - 1
    return model(ids, cache, None, slots.clamp(max=last), ragged_mask(cache, model))


def ragged_mask(cache: RaggedCache, model: GPT) -> Tensor:  # -> [B, 1, T, S + T]
    """0 where a new token may look: at every slot of its row up to its own."""
    slots = cache.slots
    everything = torch.arange(cache.length + slots.shape[1], device=slots.device)
    hidden = everything > slots[:, None, :, None]
    return model.wte.weight.new_zeros(hidden.shape).masked_fill(hidden, -torch.inf)


@torch.inference_mode()
def prefill(model: GPT, row: KVCache, prompt: Tensor) -> None:  # [n]
    """A new text's prompt goes through alone, all but its last token.

    In a padded pass every other row would be padded to the prompt's length.
    """
    if len(prompt) > 1:
        model(prompt[None, :-1], row, last=1)

"""Attention: both forms are one function, each head looks where the mask lets it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from minispec.model.attention import causal_mask, fused_attention, open_attention
from minispec.model.gpt2 import Attention, GPTConfig
from minispec.model.kv_cache import KVCache

from support.checks import agree
from support.oracles import naive_attention
from support.strategies import tiny_gpt

pytestmark = pytest.mark.exercise2
FORMS = pytest.mark.parametrize("attend", [open_attention, fused_attention])


@FORMS
@pytest.mark.parametrize("T, S", [(1, 0), (1, 3), (4, 0), (2, 3), (4, 2)])
def test_each_query_weighs_the_values_it_may_see(attend: Any, T: int, S: int) -> None:
    """None is causal; an explicit mask, the causal one or another, is obeyed."""
    dice, scale = torch.Generator().manual_seed(T + S), 0.7
    query, key, value = (
        torch.randn(2, 3, n, 4, generator=dice, dtype=torch.float64)
        for n in (T, S + T, S + T)
    )
    batch = torch.rand(2, 1, T, S + T, generator=dice) < 0.5
    batch |= torch.eye(T, S + T).bool().roll(S, -1)  # each sees itself
    tree = batch[0, 0]
    causal = torch.ones(T, S + T).tril(S).bool()
    slopes = torch.randn(T, S + T, generator=dice, dtype=torch.float64)
    for mask, seen in [
        (None, causal),
        (added(causal), causal),
        (added(tree), tree),
        (added(batch), batch),  # one for each row of the batch
        (added(causal) + slopes, causal),  # a mask may weigh, too
    ]:
        scores = torch.einsum("bhtd,bhsd->bhts", query, key) * scale
        weights = (scores + (added(causal) if mask is None else mask)).softmax(-1)
        expected = torch.einsum("bhts,bhsd->bhtd", weights, value)
        broke = f"{attend.__name__}: not softmax(query @ key.T * scale + mask) @ value."
        got = attend(query, key, value, mask, scale)
        what = {"cached": S, "new": T, "visible": seen.long(), "causal": mask is None}
        agree(got[0, 0], expected[0, 0], broke, 1e-10, **what, head=0)
        agree(got, expected, broke, tolerance=1e-10, **what)


@FORMS
def test_scores_of_any_size_have_a_softmax(attend: Any) -> None:
    """exp(2000) is not a number that floats have."""
    rows = torch.tensor([[1000.0, 0.0], [1000.0, 0.0]]).double()[None, None]
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).double()[None, None]
    expected = torch.tensor([[1.0, 2.0], [2.0, 3.0]]).double()[None, None]
    broke = "Both keys have the same score, 2000, so both values weigh the same."
    agree(attend(rows, rows, values, None, 0.002), expected, broke, values=values)


def added(seen: Tensor) -> Tensor:
    """As it is added to the scores: 0 where a token is seen, -inf elsewhere."""
    return torch.zeros(seen.shape).double().masked_fill(~seen, -torch.inf)


@given(n_new=st.integers(1, 8), n_past=st.integers(0, 8))
def test_the_mask_shows_the_past_and_new_tokens_up_to_itself(
    n_new: int, n_past: int
) -> None:
    """From a single new token nothing is hidden: None, or nothing but zeros."""
    n_all = n_past + n_new
    mask = causal_mask(n_new, n_all, torch.zeros(1).double())
    if n_new > 1 or mask is not None:
        sees = [[s <= n_past + i for s in range(n_all)] for i in range(n_new)]
        broke = "New token i sees the past and the new tokens up to itself."
        agree(mask, added(torch.tensor(sees)), broke, n_new=n_new, n_all=n_all)


@FORMS
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("split", [[5], [2, 3], [4, 1]])
@torch.no_grad()
def test_the_layer_splits_and_joins_the_heads_and_files_keys_and_values(
    attend: Any, split: list[int], inverse: bool
) -> None:
    """Against each head spelled out. B is 2, so a wrong reshape mixes texts; H is 3 and
    D is 2, so one that takes H for D or T shows; and the layer is the second of two."""
    config = GPTConfig(2, 3, 6, 5, 8, scale_attn_by_inverse_layer_idx=inverse)
    model = tiny_gpt(config, seed=1, attend=attend)
    layer, x = model.h[1].attn, tiny_gpt(GPTConfig(1, 1, 60, 1, 1), 2).wte.weight
    x = x.view(2, 5, 6)
    weights = {k: v.numpy() for k, v in model.state_dict().items() if "h.1.attn" in k}
    each = [naive_attention(weights, "h.1.attn", config, 1, one) for one in x.numpy()]

    assert isinstance(layer, Attention)
    cache, parts = KVCache(2, 3, 2, 5, batch=2, dtype=torch.float64), []
    for block in map(Tensor.contiguous, x.split(split, dim=1)):
        mask = causal_mask(block.shape[1], cache.length + block.shape[1], x)
        parts.append(layer(block, cache, mask))
        cache.advance(block.shape[1])
    joint = x @ layer.c_attn.weight + layer.c_attn.bias  # [B, T, 3 * H * D]
    for name, rows, columns in (
        ("keys", cache.keys, joint[..., 6:12]),
        ("values", cache.values, joint[..., 12:]),
    ):
        own = columns.view(2, 5, 3, 2).transpose(1, 2)  # [B, H, T, D]
        broke = f"The second layer's {name} belong in slot 1 of the cache."
        agree(rows[0][:, 0, 0], own[:, 0, 0] * 0, broke, slot=0)
        agree(rows[1][:, 0, 0], own[:, 0, 0], broke, slot=1, head=0, position=0)
        agree(rows[1], own, broke, slot=1)

    expected = torch.stack([torch.from_numpy(one) for one in each])
    broke = "The output is not each head's, side by side, times c_proj."
    agree(torch.cat(parts, 1)[:, 0], expected[:, 0], broke, 1e-10, position=0)
    agree(torch.cat(parts, 1), expected, broke, tolerance=1e-10, blocks=split)
    seen = torch.eye(5).bool()
    seen[:, 0] = True  # as if each stood alone after the first
    pairs = [layer(x[:, [0, i][: i + 1]], None, None)[:, -1] for i in range(5)]
    broke = "The mask that is given decides, with a cache and without."
    what = {"visible": seen.long(), "text": "each", "shown": "the first feature"}
    cache.truncate(0)
    for used in (None, cache):
        got, expected = layer(x, used, added(seen)), torch.stack(pairs, 1)
        agree(got[..., 0], expected[..., 0], broke, 1e-10, **what)
        agree(got, expected, broke, 1e-10, **what)


def test_the_layer_asks_its_attend_with_the_mask_as_given() -> None:
    """Which is how a fused kernel, or another one, takes its place."""
    layer, asked = tiny_gpt(GPTConfig(2, 3, 6, 5, 8), seed=1).h[1].attn, []

    def attend(query: Any, key: Any, value: Any, mask: Any, scale: float) -> Tensor:
        asked.append((mask, scale))
        return open_attention(query, key, value, mask, scale)

    layer.attend = attend
    x = torch.ones(1, 3, 6, dtype=torch.float64)
    mask = added(torch.ones(3, 3).bool())
    for given_mask in (None, mask):
        layer(x, None, given_mask)
        agree(len(asked), 1, "self.attend is called once for each forward.")
        got, scale = asked.pop()
        agree(got is given_mask, True, "The mask reaches self.attend as it is.")
        agree(scale, float(layer.scale), "The scale reaches self.attend.")

"""Bare blocks: the same logits, and not where something would be left out."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

from minispec import GPT, GPTConfig
from minispec.model.bare import BareBlock, lay_bare
from minispec.model.gpt2 import Block
from minispec.model.packed import pack

from support.strategies import tiny_gpt

CONFIG = GPTConfig(
    2, 2, 64, 64, 48, activation_function="gelu", scale_attn_by_inverse_layer_idx=True
)


def kinds(model: GPT) -> set[type]:
    return {type(block) for block in model.h}


def as_it_is(model: GPT) -> GPT:
    return model


@pytest.mark.parametrize("before", [as_it_is, lambda model: pack(model, least=0)])
def test_logits_are_the_plain_ones_up_to_rounding(before: Callable[[GPT], GPT]) -> None:
    """Without a cache and with one, in a batch, under a mask, of a copy too."""
    plain, bare = (before(tiny_gpt(CONFIG, 1, torch.float32)) for _ in range(2))
    assert lay_bare(bare) is bare and kinds(bare) == {BareBlock}
    bare = copy.deepcopy(bare)
    ids = torch.randint(64, (3, 12), generator=torch.Generator().manual_seed(1))
    expected = plain(ids)
    torch.testing.assert_close(bare(ids), expected)
    cache = bare.new_cache(batch=3)
    parts = [bare(ids[:, :7], cache), bare(ids[:, 7:8], cache)]
    mask = torch.full((4, 12), -torch.inf).triu(9)  # causal, as a tree would bring it
    parts.append(bare(ids[:, 8:], cache, mask=mask))
    torch.testing.assert_close(torch.cat(parts, dim=1), expected)


def test_parameters_are_where_they_were() -> None:
    plain, bare = (tiny_gpt(CONFIG, 1) for _ in range(2))
    state, own = plain.state_dict(), lay_bare(bare).state_dict()
    assert list(own) == list(state) and all(own[k].equal(state[k]) for k in state)
    with torch.no_grad():
        bare.h[0].mlp.c_fc.bias += 1  # type: ignore
        plain.h[0].mlp.c_fc.bias += 1  # type: ignore
    ids = torch.arange(5)[None]
    torch.testing.assert_close(bare(ids), plain(ids))
    doubled = {name: 2 * tensor for name, tensor in plain.state_dict().items()}
    for assign in (False, True):
        models = [copy.deepcopy(model) for model in (plain, bare)]
        for model in models:
            model.load_state_dict(doubled, assign=assign)
        torch.testing.assert_close(models[0](ids), models[1](ids))
    wide = copy.deepcopy(bare).to(torch.bfloat16)
    assert wide(ids).dtype == torch.bfloat16


def test_a_block_with_a_hook_stays() -> None:
    """Tensor parallelism adds up there what all ranks computed; adapters step in."""
    for place in ("attn", "mlp.c_fc", ""):
        for how in (
            "register_forward_hook",
            "register_full_backward_hook",
            "register_full_backward_pre_hook",
            "forward",
        ):
            model = tiny_gpt(CONFIG, 1)
            part: Any = model.h[0].get_submodule(place)
            if how == "forward":
                part.forward = part.forward  # an adapter would put its own
            else:
                getattr(part, how)(lambda *_: None)
            assert [type(block) for block in lay_bare(model).h] == [Block, BareBlock]

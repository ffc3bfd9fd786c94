"""Packed weights: the same products up to rounding, from tiles of every weight."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from minispec import GPTConfig
from minispec.files import checkpoint
from minispec.model.layers import Conv1D
from minispec.model.packed import TiledConv1D, TiledHead, pack, tiles_of

from support.strategies import tiny_gpt

pytestmark = pytest.mark.skipif(
    not torch.backends.mkl.is_available(), reason="without MKL everything stays plain"
)
SHAPES = {
    "tiles of 32": GPTConfig(2, 2, 64, vocab_size=64, n_positions=48),
    "of 48, and rows that fill no tile": GPTConfig(1, 3, 48, vocab_size=50),
    "a head of its own": GPTConfig(1, 2, 32, 71, 48, tie_word_embeddings=False),
    "a narrow MLP stays plain": GPTConfig(1, 2, 32, 40, 48, n_inner=20),
}


def conv1d(n_in: int, n_out: int) -> Conv1D:
    layer, dice = Conv1D(n_in, n_out).requires_grad_(False), torch.Generator()
    for parameter in layer.parameters():
        parameter.normal_(generator=dice.manual_seed(n_in))
    return layer


@pytest.mark.parametrize("config", SHAPES.values(), ids=SHAPES)
def test_logits_are_the_plain_ones_up_to_rounding(config: GPTConfig) -> None:
    """1 to 40 rows, at once and over a cache, in a batch too."""
    plain, packed = (tiny_gpt(config, 1, torch.float32) for _ in range(2))
    assert pack(packed, least=0) is packed
    assert any(isinstance(one, TiledConv1D) for one in packed.modules())
    dice = torch.Generator().manual_seed(1)
    ids = torch.randint(config.vocab_size, (2, 40), generator=dice)
    scale = plain(ids).abs().max()
    cache = packed.new_cache(batch=2)
    for n in (1, 2, 5, 9, 23):  # 40 in all
        start = cache.length
        expected = plain(ids[:, : start + n])[:, start:]
        off = packed(ids[:, start : start + n], cache) - expected
        assert off.abs().max() < 1e-5 * scale, n
    for n in range(1, 41):
        assert (packed(ids[:1, :n]) - plain(ids[:1, :n])).abs().max() < 1e-5 * scale, n


@pytest.mark.parametrize("n_in, n_out", [(3, 32), (5, 96), (64, 3 * 64), (7, 144)])
def test_a_tile_holds_neighbouring_outputs(n_in: int, n_out: int) -> None:
    weight = conv1d(n_in, n_out).weight
    tiles = tiles_of(weight)
    width = tiles.shape[2]
    assert width in (32, 48) and tiles.is_contiguous()
    for i, tile in enumerate(tiles):
        assert tile.equal(weight[:, i * width : (i + 1) * width])


def test_the_state_is_the_plain_models(tmp_path: Path) -> None:
    """It can be saved, and loads as a plain model; loading into tiles is an error."""
    config = SHAPES["of 48, and rows that fill no tile"]
    plain, packed = (tiny_gpt(config, 1, torch.float32) for _ in range(2))
    pack(packed, least=0)
    state, own = plain.state_dict(), packed.state_dict()
    assert list(own) == list(state) and all(own[k].equal(state[k]) for k in state)
    assert packed.n_parameters == plain.n_parameters
    checkpoint.save(packed, tmp_path)
    again = checkpoint.load(tmp_path).state_dict()
    assert all(again[name].equal(state[name]) for name in state)
    with pytest.raises(ValueError, match="load the weights first, then pack"):
        packed.load_state_dict(state)


def test_any_module_with_conv1d_layers_is_packed() -> None:
    heads, x = nn.ModuleList([conv1d(16, 64), conv1d(16, 20)]), torch.ones(2, 3, 16)
    expected = [head(x) for head in heads]
    pack(nn.ModuleDict({"heads": heads}), least=0)
    assert [type(head) for head in heads] == [TiledConv1D, Conv1D]  # 20 is no tile
    for head, rows in zip(heads, expected):
        torch.testing.assert_close(head(x), rows)


@pytest.mark.parametrize(
    "dtype, how", [(torch.float64, {"least": 0}), (torch.float32, {})]
)
def test_small_models_and_other_types_stay_plain(dtype: torch.dtype, how: Any) -> None:
    model = pack(tiny_gpt(SHAPES["tiles of 32"], 1, dtype), **how)
    kinds = {type(one) for one in model.modules()}
    assert not kinds & {TiledConv1D, TiledHead}


def test_each_matrix_is_given_back_before_the_next_is_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So a large model never needs its weights twice."""
    model, left = tiny_gpt(SHAPES["tiles of 32"], 1, torch.float32), list[int]()
    layers = [weakref.ref(one) for one in model.modules() if isinstance(one, Conv1D)]

    def spied(weight: torch.Tensor) -> torch.Tensor:
        left.append(sum(layer() is not None for layer in layers))
        return tiles_of(weight)

    monkeypatch.setattr("minispec.model.packed.tiles_of", spied)
    pack(model, least=0)
    # The two of an attention or an MLP go together, the last in hand a little later.
    assert left[:2] == [8, 8] and left[4] <= 6 and left[-1] <= 2

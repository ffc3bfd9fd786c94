"""Folders that `transformers` saves, loaded by us, against `transformers` itself.

Shapes are those of the real models (random weights, every one of them mattering). The
real shapes take minutes and gigabytes of temporary files: `pytest --slow`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from minispec import checkpoint
from minispec.gpt2 import GPT

from strategies import tiny_gpt

transformers = pytest.importorskip("transformers", reason="needs transformers")

GPT2 = {"vocab_size": 50257, "n_positions": 1024}
SHAPES = {
    "tiny": dict(
        n_layer=3, n_head=2, n_embd=12, n_inner=20, vocab_size=41, n_positions=100,
        activation_function="gelu", scale_attn_by_inverse_layer_idx=True,
    ),
    "distilgpt2": dict(n_layer=6, n_head=12, n_embd=768, **GPT2),
    "gpt2": dict(n_layer=12, n_head=12, n_embd=768, **GPT2),
    "gpt2-medium": dict(n_layer=24, n_head=16, n_embd=1024, **GPT2),
    "gpt2-large, 3 layers": dict(n_layer=3, n_head=20, n_embd=1280, **GPT2),
    "gpt2-xl, 3 layers": dict(n_layer=3, n_head=25, n_embd=1600, **GPT2),
}  # fmt: skip


def marked(name: str):
    return name if name == "tiny" else pytest.param(name, marks=pytest.mark.slow)


@pytest.fixture(scope="module", params=[marked(name) for name in SHAPES])
def reference(request: pytest.FixtureRequest):
    """A random model of each shape; biases and norms are perturbed to be seen."""
    torch.manual_seed(3)
    config = transformers.GPT2Config(**SHAPES[request.param])
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def save_there(model, form: str, folder: Path) -> None:
    """Save a model of `transformers` in one of the three forms."""
    n_bytes = 4 * sum(p.numel() for p in model.parameters())
    if form == "bin":  # which `save_pretrained` no longer writes
        model.config.save_pretrained(folder)
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    elif form == "shards":
        model.save_pretrained(folder, max_shard_size=f"{n_bytes // 3000 + 1}KB")
        assert (folder / "model.safetensors.index.json").exists()
    else:
        model.save_pretrained(folder)


@pytest.fixture(scope="module")
def folder(reference) -> Iterator[Path]:
    """It, saved in one file; removed afterwards, for these are gigabytes."""
    with TemporaryDirectory() as name:
        save_there(reference, "safetensors", Path(name))
        yield Path(name)


@pytest.fixture(scope="module")
def ours(folder) -> GPT:
    return checkpoint.load(folder)


@pytest.mark.parametrize("form", ["safetensors", "shards", "bin"])
def test_every_form_holds_the_very_same_weights(reference, form):
    """Bit for bit: whatever holds for the model of one form holds for all."""
    with TemporaryDirectory() as name:
        save_there(reference, form, Path(name))
        found = checkpoint.load(name).state_dict()
    theirs = reference.transformer.state_dict()
    assert found.keys() == theirs.keys()
    assert all(torch.equal(found[key], theirs[key]) for key in theirs)


def prompt(model: GPT, n: int) -> Tensor:  # -> [1, n]
    seed = torch.Generator().manual_seed(n)
    return torch.randint(0, model.config.vocab_size, (1, n), generator=seed)


def in_blocks(model: GPT, ids: Tensor, cuts: list[int]) -> Tensor:
    """Logits of all positions, fed block by block through the cache."""
    cache, edges = model.new_cache(), [0, *cuts, ids.shape[1]]
    blocks = [model(ids[:, a:b], cache) for a, b in zip(edges, edges[1:]) if a < b]
    return torch.cat(blocks, dim=1)


@torch.no_grad()
def test_logits_agree_with_and_without_cache(reference, ours):
    ids = prompt(ours, 33)
    theirs = reference(ids).logits
    torch.testing.assert_close(ours(ids), theirs, rtol=0, atol=1e-4)
    for cuts in ([1], [32], [7, 8, 20], list(range(1, 33))):
        split = in_blocks(ours, ids, cuts)
        torch.testing.assert_close(split, theirs, rtol=0, atol=1e-4)


@torch.no_grad()
def test_logits_agree_in_float64(reference, folder):
    model = checkpoint.load(folder, dtype=torch.float64)
    ids = prompt(model, 12)
    theirs = reference.double()(ids).logits
    reference.float()
    for logits in (model(ids), in_blocks(model, ids, [5, 6])):
        torch.testing.assert_close(logits, theirs, rtol=0, atol=1e-10)


def test_64_greedy_tokens_agree(reference, ours):
    ids = prompt(ours, 9)
    theirs = reference.generate(
        ids, do_sample=False, max_new_tokens=64, pad_token_id=0, eos_token_id=None
    )
    assert greedy(ours, ids, 64) == theirs[0, 9:].tolist()


@torch.no_grad()
def greedy(model: GPT, ids: Tensor, n: int) -> list[int]:
    """The most likely token, n times: no code but the model's own."""
    cache, out = model.new_cache(), []
    for _ in range(n):
        ids = model(ids, cache)[:, -1:].argmax(-1)
        out.append(int(ids))
    return out


@given(st.lists(st.integers(1, 39), max_size=6).map(sorted))
@torch.no_grad()
def test_any_split_of_the_prompt(tiny_pair, cuts):
    model, theirs = tiny_pair
    split = in_blocks(model, prompt(model, 40), cuts)
    torch.testing.assert_close(split, theirs, rtol=0, atol=1e-10)


@pytest.fixture(scope="module")
def tiny_pair(tmp_path_factory) -> tuple[GPT, Tensor]:
    torch.manual_seed(4)
    config = transformers.GPT2Config(**SHAPES["tiny"], initializer_range=0.5)
    reference = transformers.GPT2LMHeadModel(config).eval()
    folder = tmp_path_factory.mktemp("tiny")
    reference.save_pretrained(folder)
    model = checkpoint.load(folder, dtype=torch.float64)
    with torch.no_grad():
        return model, reference.double()(prompt(model, 40)).logits


# --- the way back: what we save ------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("auto", ["GPT2LMHeadModel", "AutoModelForCausalLM"])
@torch.no_grad()
def test_what_we_save_loads_there_as_it_stands(tmp_path, tied, auto):
    config = checkpoint.GPTConfig(**SHAPES["tiny"], tie_word_embeddings=tied)
    model = tiny_gpt(config, seed=5, dtype=torch.float32)
    checkpoint.save(model, tmp_path, eos_id=7)
    theirs, report = getattr(transformers, auto).from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(report.values())  # no key missing, unexpected or of another shape
    assert theirs.config.eos_token_id == theirs.config.bos_token_id == 7
    ids = prompt(model, 20)
    torch.testing.assert_close(theirs(ids).logits, model(ids), rtol=0, atol=1e-4)


def test_what_they_save_of_ours_is_the_same_again(tmp_path):
    model = tiny_gpt(checkpoint.GPTConfig(**SHAPES["tiny"]), 6, dtype=torch.float32)
    checkpoint.save(model, tmp_path / "a")
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "a")
    theirs.save_pretrained(tmp_path / "b")
    again = checkpoint.load(tmp_path / "b")
    assert again.config == model.config
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)


def test_half_precision_stays_half(tmp_path):
    model = tiny_gpt(checkpoint.GPTConfig(**SHAPES["tiny"]), 6, dtype=torch.float32)
    checkpoint.save(model, tmp_path, dtype=torch.float16)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["torch_dtype"] == "float16"
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, dtype="auto")
    assert theirs.dtype == torch.float16

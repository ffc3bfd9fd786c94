"""A head's folder: written, read, and everything in it that does not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from minispec.drafters.heads import Head
from minispec.files.checkpoint import safetensors_format
from minispec.files.errors import CheckpointError
from minispec.files.head import fingerprint, load_head, save_head
from minispec.model.gpt2 import GPT

from support.decoding import tiny
from support.heads import SIZES, tiny_head

TARGET = tiny(V=5, n_layer=3)


@pytest.mark.parametrize("kind", SIZES)
def test_a_head_comes_back_as_it_was(kind: str, tmp_path: Path) -> None:
    head = tiny_head(kind, TARGET)
    save_head(head, tmp_path, TARGET)
    loaded = load_head(tmp_path, TARGET)
    assert type(loaded) is type(head) and loaded.sizes == head.sizes
    for name, tensor in loaded.state_dict().items():
        assert tensor.dtype == torch.float64 and not tensor.requires_grad
        assert torch.equal(tensor, head.state_dict()[name].half().double())


def edit(folder: Path, **changes: Any) -> None:
    """Change config.json: `target_` keys below "target", the others at the top."""
    stated = json.loads((folder / "config.json").read_text())
    for name, value in changes.items():
        where = stated["target"] if name.startswith("target_") else stated
        where[name.removeprefix("target_")] = value
    (folder / "config.json").write_text(json.dumps(stated))


def weights(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    found = safetensors_format.read(folder / "model.safetensors")
    change(found)
    safetensors_format.write(found, folder / "model.safetensors")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


NAN = torch.full((4, 4), torch.nan).half()
FLOAT8 = torch.ones(4, 4).to(torch.float8_e4m3fn)
FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "another kind": (lambda f: edit(f, kind="oracle"), "of kind oracle, expected"),
    "a kind that is none": (lambda f: edit(f, kind=[1]), "of kind .1., expected"),
    "another width": (lambda f: edit(f, target_n_embd=8), "n_embd 8 and this one has"),
    "a size as text": (
        lambda f: edit(f, target_n_layer="3"), "n_layer '3' and this one has 3:"
    ),
    "a config cut short": (lambda f: cut(f / "config.json"), "scripts/train_heads.py"),
    "weights cut short": (
        lambda f: cut(f / "model.safetensors"), "cut short.*scripts/train_heads.py"
    ),
    "a model's config": (lambda f: (f / "config.json").write_text("{}"), "no head"),
    "no word on the target": (lambda f: edit(f, target=3), "a target of n_layer None"),
    "unknown sizes": (lambda f: edit(f, sizes={"n": 2}), "sizes that make no medusa"),
    "huge sizes": (lambda f: edit(f, sizes={"n_heads": 10**9}), "sizes that make no"),
    "far too many": (lambda f: edit(f, sizes={"n_heads": 60000}), "sizes that make no"),
    "no sizes": (lambda f: edit(f, sizes="all"), "sizes that make no medusa head"),
    "more heads": (lambda f: edit(f, sizes={"n_heads": 4}), "lacks heads.3.weight"),
    "fewer heads": (lambda f: edit(f, sizes={"n_heads": 2}), "heads.2.weight, which"),
    "a tensor is missing": (
        lambda f: weights(f, lambda w: w.pop("heads.1.bias")), "lacks heads.1.bias"
    ),
    "a wrong shape": (
        lambda f: weights(f, lambda w: w.update({"heads.0.bias": NAN})),
        "heads.0.bias of shape",
    ),
    "NaN": (
        lambda f: weights(f, lambda w: w.update({"heads.0.weight": NAN})),
        "NaN or infinity in heads.0.weight",
    ),
    "integers": (
        lambda f: weights(f, lambda w: w.update({"heads.0.weight": NAN.int()})),
        "type torch.int32, expected float16 or so",
    ),
    "float8": (
        lambda f: weights(f, lambda w: w.update({"heads.0.weight": FLOAT8})),
        "type torch.float8_e4m3fn, expected float16 or so",
    ),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "is not a file"),
    "no config": (lambda f: (f / "config.json").unlink(), "holds no head"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_head_that_does_not_fit_is_named(fault: str, tmp_path: Path) -> None:
    spoil, said = FAULTS[fault]
    save_head(tiny_head("medusa", TARGET), tmp_path, TARGET)
    spoil(tmp_path)
    with pytest.raises(CheckpointError, match=said) as raised:
        load_head(tmp_path, TARGET)
    assert str(tmp_path) in str(raised.value) and len(str(raised.value)) < 601
    assert "download" not in str(raised.value)


@pytest.mark.parametrize(
    "other, said",
    [
        (tiny(V=5, n_layer=3, seed=1), "fingerprint"),
        (tiny(V=4, n_layer=3), "vocab_size"),
    ],
)
def test_a_head_of_another_target_is_named(
    other: GPT, said: str, tmp_path: Path
) -> None:
    head: Head = tiny_head("mtp", TARGET)
    save_head(head, tmp_path, TARGET)
    with pytest.raises(CheckpointError, match=f"a target of {said} .* this one has"):
        load_head(tmp_path, other)


def test_the_same_target_in_another_type_is_the_same(tmp_path: Path) -> None:
    rounded = tiny(V=5, n_layer=3).half().double()
    save_head(tiny_head("eagle", rounded), tmp_path, rounded)
    for dtype in (torch.float32, torch.bfloat16):
        assert fingerprint(rounded) == fingerprint(deepcopy(rounded).to(dtype))
        assert load_head(tmp_path, rounded.to(dtype)).fc.weight.dtype == dtype


def test_numbers_beyond_float16_are_neither_written_nor_read_as_such(
    tmp_path: Path,
) -> None:
    """In float32 they are fine; what float16 makes of them is infinity."""
    target = tiny(V=5, n_layer=3).half().float()
    head = tiny_head("medusa", target)
    save_head(head, tmp_path, target)
    large = torch.full((4, 4), 1e6)
    weights(tmp_path, lambda w: w.update({"heads.0.weight": large}))
    assert torch.equal(load_head(tmp_path, target).heads[0].weight, large)
    says = "infinity in heads.0.weight as torch.float16"
    with pytest.raises(CheckpointError, match=says):
        load_head(tmp_path, target.half())
    head.heads[0].weight.fill_(1e6)
    with pytest.raises(CheckpointError, match=says):
        save_head(head, tmp_path / "new", target)
    assert not (tmp_path / "new").exists()

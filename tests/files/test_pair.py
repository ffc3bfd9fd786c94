"""A target and a draft: what they share, and files that contradict each other."""

import base64
import json
from dataclasses import asdict, replace

import pytest
import torch

from minispec.files.checkpoint import load, save
from minispec.files.errors import CheckpointError
from minispec.files.pair import SHIPPED, eos_ids_of, load_model, load_pair
from minispec.files.tokenizer import Tokenizer
from minispec.model.gpt2 import GPT, GPTConfig

from support.folders import lay, same_model
from support.tiny_pairs import random_folder, write_vocabulary


@pytest.fixture
def folders(tmp_path):
    for seed, name in enumerate(("target", "draft")):
        (tmp_path / name).mkdir()
        random_folder(tmp_path / name, seed)
    return tmp_path / "target", tmp_path / "draft"


def pad(folder, n_rows=264, **changes):
    """Large rows: if they were there, they would be emitted again and again."""
    model = load(folder)
    rows = torch.full((n_rows - 257, 8), 50.0)
    tensors = dict(model.state_dict())
    tensors["wte.weight"] = torch.cat([model.wte.weight, rows])
    config = {**asdict(replace(model.config, vocab_size=n_rows)), "eos_token_id": 256}
    lay(folder, tensors, config | changes)
    return model


@pytest.mark.parametrize("padded", ["target", "draft"])
def test_padding_of_either_model_of_a_pair_is_left_out(folders, padded):
    model = pad(folders[0].parent / padded)
    pair = load_pair(*folders)
    assert pair.draft is not None and pair.eos_ids == (256,)
    assert pair.draft.config.vocab_size == pair.target.config.vocab_size == 257
    assert same_model(getattr(pair, padded), like=model)


@pytest.mark.parametrize(
    "n_rows, changes",
    [
        (264, {"eos_token_id": 255}),  # the stated EOS is another
        (264, {"eos_token_id": None}),  # the default 50256 is another
        (259, {}),  # too odd a number for padding
        (1056, {}),  # too many rows for padding
        (256, {"eos_token_id": 255}),
        (257, {"eos_token_id": [256, 257]}),  # no such token
    ],
)
def test_rows_that_are_not_plainly_padding_are_not_cut(folders, n_rows, changes):
    pad(folders[0], max(n_rows, 257), **changes, vocab_size=n_rows)
    with pytest.raises(CheckpointError, match="take both from one model"):
        load_model(folders[0])


@pytest.mark.parametrize("pads", [0, 16])
def test_a_vocabulary_cut_short_is_found_out_at_every_line(tmp_path, pads):
    """The EOS would become another id, and rows of the model would vanish."""
    model = GPT(GPTConfig(1, 1, 2, vocab_size=304 + pads, n_positions=4))
    save(model.initialize(torch.Generator()), tmp_path, eos_id=303)
    write_vocabulary(tmp_path, n_words=47)
    assert load_model(tmp_path)[0].config.vocab_size == 304
    file = tmp_path / "bytes.tiktoken"
    lines = file.read_bytes().splitlines(keepends=True)
    for n in range(256, len(lines)):
        file.write_bytes(b"".join(lines[:n]))
        with pytest.raises(CheckpointError, match=f"{n + 1} ids and EOS {n}, "):
            load_model(tmp_path)


def test_gpt2_padded_to_50304_without_a_stated_eos(tmp_path):
    """nanoGPT's rows; GPT-2's EOS is what transformers takes where none is stated."""
    tokens = [bytes([b]) for b in range(256)]
    tokens += [b"a" + i.to_bytes(2, "big") for i in range(50256 - 256)]
    lines = (b"%s %d\n" % (base64.b64encode(t), i) for i, t in enumerate(tokens))
    (tmp_path / "gpt2.tiktoken").write_bytes(b"".join(lines))
    model = GPT(GPTConfig(1, 1, 1, vocab_size=50304, n_positions=4))
    save(model.initialize(torch.Generator()), tmp_path)
    stated = json.loads((tmp_path / "config.json").read_text())
    del stated["eos_token_id"]
    (tmp_path / "config.json").write_text(json.dumps(stated))
    assert load_model(tmp_path)[0].config.vocab_size == 50257
    assert eos_ids_of(tmp_path) == (50256,)


def test_eos_ids_are_the_targets(folders):
    target, draft = folders
    (target / "generation_config.json").write_text('{"eos_token_id": [10, 256]}')
    assert load_pair(target, draft).eos_ids == eos_ids_of(target) == (10, 256)
    assert load_pair(str(target), None).draft is None
    for folder, text in ((target, "{}"), (draft, '{"eos_token_id": null}')):
        (folder / "generation_config.json").write_text(text)
        assert eos_ids_of(folder) == (256,)  # of config.json


def test_a_draft_of_another_vocabulary_is_rejected(folders):
    lines = (folders[1] / "bytes.tiktoken").read_text().splitlines()
    swapped = [f"{a.split()[0]} {i}" for i, a in enumerate(reversed(lines))]
    (folders[1] / "bytes.tiktoken").write_text("\n".join(swapped))
    with pytest.raises(ValueError, match="the vocabularies differ"):
        load_pair(*folders)


def test_folders_that_cannot_be_loaded_say_what_to_do(tmp_path):
    for name in ("absent", "x" * 999):
        with pytest.raises(CheckpointError, match="no such folder"):
            load_pair(tmp_path / name)
    with pytest.raises(CheckpointError, match="the shipped pair is missing"):
        load_pair(SHIPPED / "absent")
    with pytest.raises(CheckpointError, match="in it, draft, draft-bytes, target"):
        load_pair(str(SHIPPED))


def test_without_arguments_it_is_the_shipped_pair():
    pair = load_pair()
    assert pair.draft is not None and pair.eos_ids == (1023,)
    assert pair.tokenizer.same_vocabulary(Tokenizer.from_folder(SHIPPED / "draft"))
    assert pair.target.config.vocab_size == pair.draft.config.vocab_size == 1024
    assert pair.target.config.n_positions == pair.draft.config.n_positions == 512

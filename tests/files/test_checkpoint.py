"""Checkpoint folders: what is accepted means the same model, anything else is rejected.

The model is always a random one whose every weight matters (`strategies.tiny_gpt`), so
a missed transposition or a dropped bias changes its logits.
"""

import json
import os
from dataclasses import asdict, replace

import pytest
import torch
from hypothesis import given

from minispec.files import checkpoint
from minispec.files.checkpoint import load, pickle_format, read_folder
from minispec.files.checkpoint import safetensors_format, save
from minispec.files.checkpoint.vocabulary_rows import is_padded
from minispec.files.errors import CheckpointError
from minispec.model.attention import open_attention
from minispec.model.gpt2 import GPT

from support.folders import (
    CONFIG, MODEL, UNTIED, lay, lay_shards, logits, prefixed, same_model, state, stated,
)  # fmt: skip
from support.strategies import SEEDS, configs, tiny_gpt

MATRICES = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")

# --- the plain case ------------------------------------------------------------------


@given(configs(), SEEDS)
def test_save_then_load_is_the_same_model(tmp_path_factory, config, seed):
    """And config.json states it all: other readers have other defaults."""
    folder, eos_id = tmp_path_factory.mktemp("round"), seed % config.vocab_size
    model = tiny_gpt(config, seed, dtype=torch.float32)
    save(model, folder, eos_id=eos_id)
    back = load(folder)
    assert back.config == config and not back.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], tensor)
    found = json.loads((folder / "config.json").read_text())
    assert asdict(config).items() <= found.items()
    assert found["eos_token_id"] == found["bos_token_id"] == eos_id
    assert checkpoint.stated_eos_ids(folder) == (eos_id,)


def test_loading_copies_nothing_and_can_be_saved_onto_itself(tmp_path):
    save(MODEL, tmp_path)
    model, before = load(tmp_path), (tmp_path / "model.safetensors").read_bytes()
    wpe, wte = model.wpe.weight, model.wte.weight
    assert abs(wpe.data_ptr() - wte.data_ptr()) < len(before)  # in one map of the file
    with torch.no_grad():
        wte[0] += 1
    assert (tmp_path / "model.safetensors").read_bytes() == before
    save(model, tmp_path)
    assert same_model(load(tmp_path), like=model) and not same_model(model)
    assert {p.name for p in tmp_path.iterdir()} == {"config.json", "model.safetensors"}


@pytest.mark.parametrize("on_disk", checkpoint.FLOATS)
@pytest.mark.parametrize("wanted", checkpoint.FLOATS)
def test_any_float_type_on_disk_and_in_memory(tmp_path, on_disk, wanted):
    save(MODEL, tmp_path, dtype=on_disk)
    model = load(tmp_path, dtype=wanted, attend=open_attention)
    for name, tensor in MODEL.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor.to(on_disk).to(wanted))
    assert logits(model).isfinite().all() and model.h[1].attn.attend is open_attention


@pytest.mark.parametrize("model", [MODEL, UNTIED], ids=["tied", "untied"])
def test_the_saved_files_have_the_form_of_transformers(tmp_path, model):
    save(model, tmp_path, dtype=torch.float16, eos_id=7)
    found = safetensors_format.read(tmp_path / "model.safetensors")
    names = {key if key == "lm_head.weight" else f"transformer.{key}"
             for key in model.state_dict()}  # fmt: skip
    assert found.keys() == names
    assert found["transformer.h.0.attn.c_attn.weight"].shape == (6, 18)  # in, out
    assert json.loads((tmp_path / "config.json").read_text()) == {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
        **asdict(model.config), "bos_token_id": 7, "eos_token_id": 7,
        "torch_dtype": "float16",
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own
def test_a_compiled_model_is_saved_under_plain_names(tmp_path):
    """With `_orig_mod.` before them, transformers loads other weights in silence."""
    part = tiny_gpt(CONFIG, seed=1, dtype=torch.float32)
    part.h[1] = torch.compile(part.h[1])
    for model in (torch.compile(MODEL), part):
        save(model, tmp_path)
        keys = safetensors_format.read(tmp_path / "model.safetensors").keys()
        assert keys == {f"transformer.{key}" for key in MODEL.state_dict()}
        assert same_model(load(tmp_path))


def test_a_model_with_weights_of_its_own_is_not_saved(tmp_path):
    model = GPT(CONFIG)
    model.adapter = torch.nn.Linear(2, 2)
    with pytest.raises(CheckpointError, match="unknown weights: adapter.weight"):
        save(model, tmp_path)
    assert not list(tmp_path.iterdir())


# --- variations: the same model in other clothes -------------------------------------


def with_masks(dtype, prefix=""):
    masks = {}
    for layer in range(2):
        mask = torch.ones(1, 1, 9, 9).tril().to(dtype)
        masks[f"{prefix}h.{layer}.attn.bias"] = mask
        masks[f"{prefix}h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    return prefixed(prefix) | masks


def linear_layout(tensors):
    """Every matrix as nn.Linear has it: [out, in]."""
    return {
        key: tensor.t().contiguous()
        if key.endswith(tuple(f"{matrix}.weight" for matrix in MATRICES))
        else tensor
        for key, tensor in tensors.items()
    }


def head_alone(key, prefix=""):
    """What safetensors.torch.save_model leaves of a tied model: one of two names."""
    tensors = prefixed(prefix)
    return {key: tensors.pop(f"{prefix}wte.weight")} | tensors


WTE = state()["wte.weight"]
PREFIXES = (
    "transformer.", "_orig_mod.transformer.", "module.", "module._orig_mod.", "model.",
    "base_model.model.", "base_model.model.transformer.", "gpt.", "_forward_module.",
    "_fsdp_wrapped_module.transformer.", "a.very.long.one.",
)  # fmt: skip
VARIATIONS = {
    "GPT-2's names": state(),
    **{prefix: prefixed(prefix) for prefix in PREFIXES},
    "masks": with_masks(torch.uint8),
    "masks of floats": with_masks(torch.float32, "transformer."),
    "prefix and head": prefixed("transformer.") | {"lm_head.weight": WTE},
    "prefix of both": prefixed("model.transformer.") | {"model.lm_head.weight": WTE},
    "unknown prefix, head": prefixed("gpt.") | {"lm_head.weight": WTE},
    "DialoGPT's head": prefixed("transformer.") | {"lm_head.decoder.weight": WTE},
    "head alone": head_alone("lm_head.weight"),
    "prefix, head alone": head_alone("lm_head.weight", "transformer."),
    "nn.Linear": linear_layout(prefixed("_orig_mod.transformer.")),
    "a padded vocabulary": state()
    | {"wte.weight": torch.cat([WTE, torch.full((5, 6), 50.0)])},
}


@pytest.mark.parametrize("case", VARIATIONS)
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_variations_are_the_same_model(tmp_path, case, name):
    assert same_model(load(lay(tmp_path, VARIATIONS[case], name=name)))


def test_a_head_of_its_own_is_used_whether_stated_or_not(tmp_path):
    for changes in ({}, {"tie_word_embeddings": False}):
        model = load(lay(tmp_path, state(UNTIED), stated(**changes)))
        assert same_model(model, like=UNTIED)
        assert not model.config.tie_word_embeddings


CONFIGS = {
    "gelu_fast": {"activation_function": "gelu_fast"},
    "n_ctx": {"n_positions": KeyError, "n_ctx": 9},
    "both": {"n_ctx": 1024},
    "GPT2Config's other names": {
        "n_layer": KeyError, "num_hidden_layers": 2, "n_embd": KeyError,
        "hidden_size": 6, "n_head": KeyError, "num_attention_heads": 2,
        "n_positions": KeyError, "max_position_embeddings": 9,
    },
    "null for the default": {"scale_attn_by_inverse_layer_idx": None},
    "rounding and training": {"reorder_and_upcast_attn": True, "attn_pdrop": 0.5},
}  # fmt: skip


@pytest.mark.parametrize("case", CONFIGS)
def test_configs_that_mean_the_same(tmp_path, case):
    lay(tmp_path, state(), stated(**CONFIGS[case]))
    path = tmp_path / "config.json"
    path.write_text(path.read_text(), encoding="utf-8-sig")  # as some editors save it
    assert same_model(load(tmp_path))


def test_rows_left_out_are_rows_masked(tmp_path):
    tensors = state() | {"wte.weight": torch.cat([WTE, torch.randn(5, 6)])}
    folder = lay(tmp_path, tensors, stated(vocab_size=16))
    masked = logits(load(folder))
    masked[..., 11:] = -torch.inf
    cut = logits(load(folder, vocab_size=11))
    torch.testing.assert_close(
        cut.softmax(-1), masked.softmax(-1)[..., :11], rtol=1e-5, atol=1e-6
    )


def test_what_counts_as_padding(tmp_path):
    assert is_padded(50304, 50257) and is_padded(152064, 151936)
    assert not any(is_padded(n, 50257) for n in (50256, 50257, 50258, 60000, 10**6))
    for n in (0, 10, 12, 50257):
        with pytest.raises(CheckpointError, match=f"{n} ids and the model 11"):
            load(lay(tmp_path, state()), vocab_size=n)


# --- rejected, with the reason --------------------------------------------------------


def without(key):
    return {k: t for k, t in state().items() if k != key}


REJECTED_WEIGHTS = {
    "lack h.1.mlp.c_fc.weight; expected .* [6, 10]": without("h.1.mlp.c_fc.weight"),
    "n_layer 2, but the weights have 1": {
        k: t for k, t in state().items() if not k.startswith("h.1")
    },
    "n_layer 2, but the weights have 3": {"h.2.ln_1.weight": torch.ones(6)},
    "without biases needs zeros": {
        k: t for k, t in state().items() if not k.endswith("bias")
    },
    "unknown weights: extra.weight .* [3]": {"extra.weight": torch.ones(3)},
    "ln_f.bias and transformer.ln_f.bias both mean ln_f.bias": {
        "transformer.ln_f.bias": torch.ones(6)
    },
    "wte.weight has shape [11, 8], but config.json means [11, 6]": tiny_gpt(
        replace(CONFIG, n_embd=8), 1
    ).state_dict(),
    "h.1.attn.c_attn.weight has shape [18, 6].*[6, 18]": {
        "h.1.attn.c_attn.weight": torch.ones(18, 6)
    },
    "[12, 6], but config.json means [6, 18]": {
        "h.0.attn.c_attn.weight": torch.ones(12, 6)
    },
    "wpe.weight has type torch.int8": {
        "wpe.weight": torch.ones(9, 6, dtype=torch.int8)
    },
    "says that the head is tied, but": {"lm_head.weight": torch.ones(11, 6)},
    "the head is tied, but lm_head": {"lm_head.weight": torch.ones(13, 6)},
    "wpe.weight has shape [12, 6], but": {"wpe.weight": torch.ones(12, 6)},
    "wte.weight has shape [13, 6]": {"wte.weight": torch.ones(13, 6)},
    "[10, 6].*[11, 6]": {"wte.weight": torch.ones(10, 6)},
    "wte.weight has shape [], but": {"wte.weight": torch.ones(())},
    "no layers: .* such as bert.wpe.weight; is this another": {
        "bert.wpe.weight": torch.ones(1)
    },
    "no layers: .* got none at all": {},
    "unknown weights: xxx": {"x\x1b" * 10**5: torch.ones(6)},
}


@pytest.mark.parametrize("message", REJECTED_WEIGHTS)
def test_weights_that_disagree_are_rejected(tmp_path, message):
    """A few tensors are changes to the right ones; the message is short always."""
    tensors = REJECTED_WEIGHTS[message]
    if len(tensors) == 1 and "no layers" not in message:
        tensors = state() | tensors
    folder = lay(tmp_path, tensors, stated(tie_word_embeddings=True))
    pattern = message.replace("[", r"\[").replace("]", r"\]").replace("xxx", "x")
    with pytest.raises(CheckpointError, match=pattern) as caught:
        load(folder)
    assert str(tmp_path) in str(caught.value) and str(caught.value).isprintable()
    assert len(str(caught.value)) < 700


def test_an_untied_config_needs_a_head_and_an_embedding(tmp_path):
    untied = stated(tie_word_embeddings=False)
    for tensors, lost in ((state(), "lm_head"), (head_alone("lm_head.weight"), "wte")):
        with pytest.raises(CheckpointError, match=f"lack {lost}.weight"):
            load(lay(tmp_path, tensors, untied))


REJECTED_CONFIGS = {
    "model_type = 'gpt_bigcode'": {"model_type": "gpt_bigcode"},
    "scale_attn_weights = False": {"scale_attn_weights": False},
    "add_cross_attention = True": {"add_cross_attention": True},
    "config.json lacks n_layer": {"n_layer": KeyError},
    "config.json lacks n_positions": {"n_positions": KeyError},
    "n_head must be of type int, got True": {"n_head": True},
    "n_head must be of type int, got None": {"n_head": None},
    "n_embd must be of type int, got '6'": {"n_embd": "6"},
    "scale_attn_by_inverse_layer_idx must be of type bool": {
        "scale_attn_by_inverse_layer_idx": "no"
    },
    "n_embd must be a multiple of n_head": {"n_head": 4},
    "n_layer must be at least 1": {"n_layer": 0},
    "n_inner must be at least 1": {"n_inner": 0},
    "n_inner must be at least 1 and at most 16777216, got 46": {"n_inner": 2**62},
    "vocab_size must be at least": {"vocab_size": 2**62},
    "gelu.*got 'swish'": {"activation_function": "swish"},
    "below 1, got nan": {"layer_norm_epsilon": float("nan")},
    "below 1, got inf": {"layer_norm_epsilon": float("inf")},
    "below 1, got -1e-05": {"layer_norm_epsilon": -1e-5},
    "n_layer 10000000, but .* 2 layers": {"n_layer": 10**7},
    "wpe.weight has shape": {"n_positions": 2**24},
}


@pytest.mark.parametrize("message", REJECTED_CONFIGS)
def test_configs_that_disagree_are_rejected(tmp_path, message):
    with pytest.raises(CheckpointError, match=message):
        load(lay(tmp_path, state(), stated(**REJECTED_CONFIGS[message])))


def test_the_number_of_a_layer_is_not_believed(tmp_path):
    """Where both files agree on a billion, that many layers must not be built."""
    tensors = state() | {"h.99999.ln_1.weight": torch.ones(6)}
    with pytest.raises(CheckpointError, match="n_layer 100000, but .* 3 layers"):
        load(lay(tmp_path, tensors, stated(n_layer=10**5)))


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_config_that_is_not_an_object_is_rejected(tmp_path, text):
    lay(tmp_path, state())
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(CheckpointError, match="config.json"):
        load(tmp_path)


def test_what_is_missing_is_named_and_so_is_what_is_there(tmp_path):
    (tmp_path / "model.gguf").touch()
    for absent in ("absent", "model.gguf"):
        with pytest.raises(CheckpointError, match="no folder .*download_weights"):
            load(tmp_path / absent)
    with pytest.raises(CheckpointError, match="cannot read .*: File name too long"):
        load(tmp_path / ("x" * 256))
    with pytest.raises(CheckpointError, match=r"config.json \(No such file or d.*\);"):
        load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(stated()))
    with pytest.raises(CheckpointError, match="holds config.json, model.gguf: ex"):
        load(tmp_path)


def test_what_cannot_be_asked_for(tmp_path):
    save(MODEL, tmp_path)
    for call in (lambda: load(tmp_path, dtype=torch.int8),
                 lambda: save(MODEL, tmp_path, dtype=torch.int8)):  # fmt: skip
        with pytest.raises(CheckpointError, match="dtype must be one of"):
            call()
    with pytest.raises(CheckpointError, match="eos_id must be .* from 0 to 10, got 11"):
        save(MODEL, tmp_path, eos_id=11)


def test_what_cannot_be_saved_leaves_nothing(tmp_path):
    with torch.device("meta"):
        empty = GPT(CONFIG)
    half = GPT(replace(CONFIG, layer_norm_epsilon=torch.tensor(1e-5)))  # no JSON
    for model, eos_id, says in (
        (empty, None, "meta device"), (MODEL, True, "got True"),
        (MODEL, 1.5, "got 1.5"), (half, None, "not JSON serializable"),
    ):  # fmt: skip
        with pytest.raises((CheckpointError, TypeError), match=says):
            save(model, tmp_path / "new", eos_id=eos_id)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize(
    "name, says",
    [("config.json", "not a regular file"), ("model.safetensors", "no weights")],
)
def test_only_regular_files_are_read(tmp_path, name, says):
    """A pipe that no one writes to would be waited for without end."""
    lay(tmp_path, state())
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(CheckpointError, match=says):
        load(tmp_path)
    for read in (safetensors_format.read, pickle_format.read):
        with pytest.raises((CheckpointError, OSError), match="not a"):
            read(tmp_path / name)


def test_a_name_that_no_file_can_have_is_said_in_one_line():
    for name in ("a\0b", "\ud800"):
        with pytest.raises(CheckpointError, match="no folder") as caught:
            load(name)
        assert str(caught.value).isprintable()


# --- shards --------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_shards_add_up(tmp_path, suffix):
    lay_shards(tmp_path, suffix)
    assert same_model(load(tmp_path))
    assert len(read_folder(tmp_path).stored) == len(state())


KEY, FIRST = "transformer.wte.weight", "model-00001-of-00002.safetensors"
BAD_INDEXES = {
    "wte.weight, which .* in no file": lambda m: m.pop(KEY),
    "which .* expects in model-00001": lambda m: m.update({KEY: FIRST}),
    "lacks more": lambda m: m.update(more=FIRST),
    "names c.safetensors, which is missing": lambda m: m.update({KEY: "c.safetensors"}),
    "names '../a.safetensors'": lambda m: m.update({KEY: "../a.safetensors"}),
    "names '/a.safetensors'": lambda m: m.update({KEY: "/a.safetensors"}),
    "names 'aaa.*aaa', expected plain names": lambda m: m.update({KEY: "a" * 256}),
    r"names '\\x1b.*, expected": lambda m: m.update({KEY: "\x1b[2J.safetensors"}),
    "names 5, expected": lambda m: m.update({KEY: 5}),
    "is not an index": lambda m: m.clear(),
}


@pytest.mark.parametrize("message", BAD_INDEXES)
def test_an_index_that_disagrees_is_rejected(tmp_path, message):
    index = lay_shards(tmp_path, "safetensors")
    found = json.loads(index.read_text())
    BAD_INDEXES[message](found["weight_map"])
    index.write_text(json.dumps(found))
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": []}'])
def test_an_index_of_another_form_is_rejected(tmp_path, text):
    lay_shards(tmp_path, "safetensors").write_text(text)
    with pytest.raises(CheckpointError, match="index.json"):
        load(tmp_path)


# --- the ids that end a text ---------------------------------------------------------


@pytest.mark.parametrize(
    "config, generation, ids",
    [
        (None, None, ()), (3, None, (3,)), ([5, 3], None, (5, 3)), (3, [3, 4], (3, 4)),
        (3, "absent", (3,)), (0, None, (0,)), ([], None, ()),
    ],
)  # fmt: skip
def test_eos_ids_are_one_or_a_list(tmp_path, config, generation, ids):
    for name, value in (("config", config), ("generation_config", generation)):
        if value != "absent":
            text = json.dumps({"eos_token_id": value})
            (tmp_path / f"{name}.json").write_text(text)
    assert checkpoint.stated_eos_ids(tmp_path) == ids


@pytest.mark.parametrize("value", ["3", True, -1, [3, None], {}, 3.0])
def test_an_eos_id_of_another_form_is_rejected(tmp_path, value):
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": value}))
    with pytest.raises(CheckpointError, match="eos_token_id must be"):
        checkpoint.stated_eos_ids(tmp_path)

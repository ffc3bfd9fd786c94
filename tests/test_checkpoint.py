"""Checkpoint folders: what is accepted means the same model, all else is refused.

The model is always a random one whose every weight matters (`strategies.tiny_gpt`), so
a missed transposition or a dropped bias changes its logits.
"""

import json
import os
import pickle
import re
import warnings
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from hypothesis import given

from minispec import checkpoint
from minispec.attention import open_attention
from minispec.checkpoint import CheckpointError, load, safetensors_format, save
from minispec.checkpoint.key_names import MATRICES, expected_shapes
from minispec.checkpoint.vocabulary_rows import is_padded
from minispec.gpt2 import GPT, GPTConfig
from minispec.pair import load_pair

from strategies import SEEDS, configs, tiny_gpt
from tiny_pairs import random_folder

# E = 6, two heads, V = 11: no two sizes are equal, so no wrong axis can hide.
CONFIG = GPTConfig(2, 2, 6, vocab_size=11, n_positions=9, n_inner=10)
MODEL = tiny_gpt(CONFIG, seed=1, dtype=torch.float32)
UNTIED = tiny_gpt(
    replace(CONFIG, tie_word_embeddings=False), seed=2, dtype=torch.float32
)
IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 10]])


def state(model: GPT = MODEL) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def stated(**changes) -> dict:
    """A config.json as the hub's are: without a word about the head."""
    found = {"model_type": "gpt2", **asdict(CONFIG), **changes}
    if "tie_word_embeddings" not in changes:
        del found["tie_word_embeddings"]
    return {key: value for key, value in found.items() if value is not KeyError}


def lay(folder: Path, tensors, config=None, name="model.safetensors") -> Path:
    """A checkpoint folder that holds just this."""
    (folder / "config.json").write_text(json.dumps(config or stated()))
    if name.endswith(".bin"):
        torch.save(tensors, folder / name)
    else:
        safetensors_format.write(tensors, folder / name)
    return folder


@torch.no_grad()
def logits(model: GPT) -> torch.Tensor:
    return model(IDS)


def same_model(model: GPT, like: GPT = MODEL) -> bool:
    return torch.equal(logits(model), logits(like))


# --- the plain case ----------------------------------------------------------------


@given(configs(), SEEDS)
def test_save_then_load_is_the_same_model(tmp_path_factory, config, seed):
    folder = tmp_path_factory.mktemp("round")
    model = tiny_gpt(config, seed, dtype=torch.float32)
    save(model, folder)
    back = load(folder)
    assert replace(back.config, n_inner=config.n_inner) == config
    assert not back.training and back.config.n_inner in (None, config.n_inner)
    for name, tensor in model.state_dict().items():
        assert torch.equal(back.state_dict()[name], tensor)


@given(configs(), SEEDS)
def test_a_saved_config_leaves_nothing_to_defaults(tmp_path_factory, config, seed):
    """Other readers have other defaults; 50256, for one, may be no id at all."""
    folder, eos_id = tmp_path_factory.mktemp("config"), seed % config.vocab_size
    save(GPT(config), folder, eos_id=eos_id)
    found = json.loads((folder / "config.json").read_text())
    assert asdict(config).items() <= found.items()
    assert found["eos_token_id"] == found["bos_token_id"] == eos_id


@given(configs())
def test_expected_shapes_are_the_models_own(config):
    model = GPT(config)
    shapes = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    assert expected_shapes(config) == shapes


def test_loading_copies_nothing_and_can_be_saved_onto_itself(tmp_path):
    save(MODEL, tmp_path)
    model = load(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    wpe, wte = model.wpe.weight, model.wte.weight
    apart = abs(wpe.data_ptr() - wte.data_ptr())
    assert apart < len(before)  # both lie in the one map of the file
    with torch.no_grad():
        wte[0] += 1
    assert (tmp_path / "model.safetensors").read_bytes() == before
    save(model, tmp_path)
    assert same_model(load(tmp_path), like=model) and not same_model(model)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "config.json", "model.safetensors",
    ]  # fmt: skip


@pytest.mark.parametrize("on_disk", checkpoint.FLOATS)
@pytest.mark.parametrize("wanted", checkpoint.FLOATS)
def test_any_float_type_on_disk_and_in_memory(tmp_path, on_disk, wanted):
    save(MODEL, tmp_path, dtype=on_disk)
    model = load(tmp_path, dtype=wanted)
    for name, tensor in MODEL.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor.to(on_disk).to(wanted))
    assert logits(model).isfinite().all()


def test_the_attention_form_is_passed_on(tmp_path):
    save(MODEL, tmp_path)
    model = load(tmp_path, attend=open_attention)
    assert model.h[1].attn.attend is open_attention


@pytest.mark.parametrize("model", [MODEL, UNTIED], ids=["tied", "untied"])
def test_the_saved_files_have_the_form_of_transformers(tmp_path, model):
    """Its names, every matrix [in, out], and a config.json that leaves nothing out."""
    save(model, tmp_path, dtype=torch.float16, eos_id=7)
    found = safetensors_format.read(tmp_path / "model.safetensors")
    assert {key: tuple(tensor.shape) for key, tensor in found.items()} == {
        key if key == "lm_head.weight" else f"transformer.{key}": shape
        for key, shape in expected_shapes(model.config).items()
    }
    assert json.loads((tmp_path / "config.json").read_text()) == {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
        **asdict(model.config), "bos_token_id": 7, "eos_token_id": 7,
        "torch_dtype": "float16",
    }  # fmt: skip


# --- variations: the same model in other clothes ------------------------------------


def prefixed(prefix):
    return lambda: {f"{prefix}{key}": tensor for key, tensor in state().items()}


def with_masks(dtype, prefix=""):
    def tensors():
        masks = {}
        for layer in range(2):
            mask = torch.ones(1, 1, 9, 9).tril().to(dtype)
            masks[f"{prefix}h.{layer}.attn.bias"] = mask
            masks[f"{prefix}h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
        return prefixed(prefix)() | masks

    return tensors


def with_head(key, prefix=""):
    return lambda: prefixed(prefix)() | {key: state()["wte.weight"]}


def linear_layout(tensors):
    """Every matrix as nn.Linear has it: [out, in]."""
    return {
        key: t.t().contiguous() if re.search("|".join(MATRICES), key) and t.ndim == 2
        else t
        for key, t in tensors.items()
    }  # fmt: skip


VARIATIONS = {
    "no prefix": state,
    "transformer.": prefixed("transformer."),
    "_orig_mod.": prefixed("_orig_mod."),
    "two prefixes": prefixed("_orig_mod.transformer."),
    "a doubled prefix": prefixed("transformer.transformer."),
    "module.": prefixed("module.transformer."),
    "float masks": with_masks(torch.float32),
    "half masks": with_masks(torch.float16, "transformer."),
    "byte masks": with_masks(torch.uint8),
    "bool masks": with_masks(torch.bool, "transformer."),
    "a repeated head": with_head("lm_head.weight", "transformer."),
    "a renamed head": with_head("lm_head.decoder.weight"),
    "nn.Linear layout": lambda: linear_layout(state()),
    "nn.Linear, compiled": lambda: linear_layout(prefixed("_orig_mod.transformer.")()),
}


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("case", VARIATIONS)
def test_variations_are_the_same_model(tmp_path, case, file):
    model = load(lay(tmp_path, VARIATIONS[case](), name=file))
    assert model.config == CONFIG
    torch.testing.assert_close(logits(model), logits(MODEL), rtol=1e-5, atol=1e-5)


def test_the_variations_are_told_apart_from_mistakes(tmp_path):
    """One square matrix transposed is another model: the logits above would show it."""
    tensors = state()
    tensors["h.0.attn.c_proj.weight"] = tensors["h.0.attn.c_proj.weight"].t()
    assert (logits(load(lay(tmp_path, tensors))) - logits(MODEL)).abs().max() > 1e-2


@pytest.mark.parametrize("prefix", ["", "transformer."])
@pytest.mark.parametrize("says", [{}, {"tie_word_embeddings": False}])
def test_a_head_of_its_own_is_used(tmp_path, prefix, says):
    tensors = {
        key if key.startswith("lm_head") else prefix + key: tensor
        for key, tensor in state(UNTIED).items()
    }
    assert same_model(load(lay(tmp_path, tensors, stated(**says))), like=UNTIED)


def test_a_head_of_another_type_is_still_the_same_head(tmp_path):
    tensors = {key: t.half() for key, t in state().items()}
    tensors["lm_head.weight"] = tensors["wte.weight"].float()
    assert load(lay(tmp_path, tensors)).config.tie_word_embeddings


@pytest.mark.parametrize(
    "changes",
    [
        {"activation_function": "gelu"},
        {"activation_function": "relu"},
        {"scale_attn_by_inverse_layer_idx": True},
        {"layer_norm_epsilon": 0.1},
    ],
)
def test_the_config_decides_the_function(tmp_path, changes):
    model = load(lay(tmp_path, state(), stated(**changes)))
    like = tiny_gpt(replace(CONFIG, **changes), seed=1, dtype=torch.float32)
    assert same_model(model, like) and not same_model(model)


@pytest.mark.parametrize("name", ["gelu_fast", "gelu_pytorch_tanh"])
def test_other_names_of_gelu_new(tmp_path, name):
    assert same_model(load(lay(tmp_path, state(), stated(activation_function=name))))


def test_the_older_name_of_the_context(tmp_path):
    config = stated(n_positions=KeyError, n_ctx=9, reorder_and_upcast_attn=True)
    assert same_model(load(lay(tmp_path, state(), config)))


@torch.no_grad()
def test_a_large_mask_value_in_half_precision_stays_finite(tmp_path):
    """GPT-2's 1e10 overflowed float16; our mask is -inf by construction."""
    save(MODEL, tmp_path, dtype=torch.float16)
    assert load(tmp_path, dtype=torch.float16)(IDS).isfinite().all()


@pytest.mark.parametrize("n", [8, 9])
def test_a_context_of_its_own_is_filled_to_the_last(tmp_path, n):
    model = load(lay(tmp_path, state()))
    assert model(IDS[:, :n]).shape == (1, n, 11)
    with pytest.raises(ValueError, match="10 tokens do not fit"):
        model(torch.zeros(1, 10, dtype=torch.long))


# --- padded vocabularies ------------------------------------------------------------


@pytest.mark.parametrize("says", [11, 16])
@pytest.mark.parametrize("head", [False, True])
def test_padding_rows_do_not_exist(tmp_path, says, head):
    """Whether config.json counts the padding or not: no logit, no probability."""
    like = UNTIED if head else MODEL
    tensors = state(like)
    for key in ("wte.weight", "lm_head.weight")[: 1 + head]:
        tensors[key] = torch.cat([tensors[key], torch.full((5, 6), 50.0)])
    model = load(lay(tmp_path, tensors, stated(vocab_size=says)), vocab_size=11)
    assert model.config.vocab_size == 11 and same_model(model, like)


def test_rows_left_out_are_rows_masked(tmp_path):
    tensors = state()
    tensors["wte.weight"] = torch.cat([tensors["wte.weight"], torch.randn(5, 6)])
    folder = lay(tmp_path, tensors, stated(vocab_size=16))
    masked = logits(load(folder))
    masked[..., 11:] = -torch.inf
    cut = logits(load(folder, vocab_size=11))
    torch.testing.assert_close(
        cut.softmax(-1), masked.softmax(-1)[..., :11], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("padded", ["target", "draft"])
def test_padding_of_either_model_of_a_pair_is_left_out(tmp_path, padded):
    """Its rows are large: if they were there, they would be emitted again and again."""
    folders = {name: tmp_path / name for name in ("target", "draft")}
    for seed, folder in enumerate(folders.values()):
        folder.mkdir()
        random_folder(folder, seed)
    model = load(folders[padded])
    tensors = dict(model.state_dict())
    tensors["wte.weight"] = torch.cat([model.wte.weight, torch.full((7, 8), 50.0)])
    lay(folders[padded], tensors, asdict(replace(model.config, vocab_size=264)))
    pair = load_pair(folders["target"], folders["draft"])
    assert pair.target.config.vocab_size == pair.tokenizer.vocab_size == 257
    assert pair.draft is not None and pair.draft(IDS).shape == (1, 9, 257)
    assert same_model(getattr(pair, padded), like=model)


def test_what_counts_as_padding():
    assert is_padded(50304, 50257) and is_padded(152064, 151936)
    assert not any(is_padded(n, 50257) for n in (50256, 50257, 50258, 60000, 10**6))


@pytest.mark.parametrize("n", [0, 12, 50257])
def test_a_tokenizer_of_another_model_is_refused(tmp_path, n):
    with pytest.raises(CheckpointError, match=f"{n} ids and the model 11"):
        load(lay(tmp_path, state()), vocab_size=n)


# --- refused, with the reason --------------------------------------------------------


def without(key):
    return {k: t for k, t in state().items() if k != key}


def changed(**tensors):
    return state() | {key.replace("__", "."): t for key, t in tensors.items()}


REFUSED_WEIGHTS = {
    "a missing key": (
        without("h.1.mlp.c_fc.weight"),
        "lack h.1.mlp.c_fc.weight; expected .* shape \\[6, 10\\]",
    ),
    "a missing layer": (
        {k: t for k, t in state().items() if not k.startswith("h.1")},
        "n_layer 2, but the weights have 1",
    ),
    "missing biases": (
        {k: t for k, t in state().items() if not k.endswith("bias")},
        "without biases needs zeros",
    ),
    "an extra key": (changed(extra__weight=torch.ones(3)), "unknown.*extra.weight.*3"),
    "an extra layer": (
        changed(h__2__ln_1__weight=torch.ones(6)),
        "n_layer 2, but the weights have 3",
    ),
    "two names of one key": (
        state() | {"transformer.ln_f.bias": torch.ones(6)},
        "ln_f.bias and transformer.ln_f.bias both mean ln_f.bias",
    ),
    "another width": (
        {k: t for k, t in tiny_gpt(replace(CONFIG, n_embd=8), 1).state_dict().items()},
        "wte.weight has shape \\[11, 8\\], but config.json means \\[11, 6\\]",
    ),
    "a mixed layout": (
        changed(h__1__attn__c_attn__weight=torch.ones(18, 6)),
        "h.1.attn.c_attn.weight has shape \\[18, 6\\].*\\[6, 18\\]",
    ),
    "grouped queries": (
        changed(h__0__attn__c_attn__weight=torch.ones(12, 6)),
        "\\[12, 6\\], but config.json means \\[6, 18\\]",
    ),
    "quantized weights": (
        changed(wpe__weight=torch.ones(9, 6, dtype=torch.int8)),
        "wpe.weight has type torch.int8",
    ),
    "a head that contradicts": (
        state() | {"lm_head.weight": torch.ones(11, 6)},
        "says that the head is tied, but lm_head.weight differs",
    ),
    "a head of another height": (
        state() | {"lm_head.weight": torch.ones(13, 6)},
        "says that the head is tied",
    ),
    "another context": (
        changed(wpe__weight=torch.ones(12, 6)),
        "wpe.weight has shape \\[12, 6\\], but config.json means \\[9, 6\\]",
    ),
    "more rows than padding": (
        changed(wte__weight=torch.ones(13, 6)),
        "wte.weight has shape \\[13, 6\\]",
    ),
    "fewer rows": (changed(wte__weight=torch.ones(10, 6)), "\\[10, 6\\].*\\[11, 6\\]"),
}


@pytest.mark.parametrize("case", REFUSED_WEIGHTS)
def test_weights_that_disagree_are_refused(tmp_path, case):
    tensors, message = REFUSED_WEIGHTS[case]
    folder = lay(tmp_path, tensors, stated(tie_word_embeddings=True))
    with pytest.raises(CheckpointError, match=message) as caught:
        load(folder)
    assert str(tmp_path) in str(caught.value)


def test_an_untied_config_needs_a_head(tmp_path):
    folder = lay(tmp_path, state(), stated(tie_word_embeddings=False))
    with pytest.raises(CheckpointError, match="lack lm_head.weight"):
        load(folder)


REFUSED_CONFIGS = {
    "another architecture": ({"model_type": "gpt_bigcode"}, "model_type = 'gpt_bigc"),
    "unscaled scores": ({"scale_attn_weights": False}, "scale_attn_weights = False"),
    "cross-attention": ({"add_cross_attention": True}, "add_cross_attention = True"),
    "no layers stated": ({"n_layer": KeyError}, "n_layer must be .* int, got None"),
    "no context stated": ({"n_positions": KeyError}, "n_positions must be of type int"),
    "true for a number": ({"n_head": True}, "n_head must be of type int, got True"),
    "text for a number": ({"n_embd": "6"}, "n_embd must be of type int, got '6'"),
    "text for a switch": ({"scale_attn_by_inverse_layer_idx": "no"}, "of type bool"),
    "heads that do not divide": ({"n_head": 4}, "n_embd must be a multiple of n_head"),
    "zero layers": ({"n_layer": 0}, "n_layer must be at least 1"),
    "an unknown activation": ({"activation_function": "swish"}, "gelu.*got 'swish'"),
    "an epsilon of NaN": ({"layer_norm_epsilon": float("nan")}, "below 1, got nan"),
    "an infinite epsilon": ({"layer_norm_epsilon": float("inf")}, "below 1, got inf"),
    "a negative epsilon": ({"layer_norm_epsilon": -1e-5}, "below 1, got -1e-05"),
    "a billion layers": ({"n_layer": 10**9}, "n_layer 1000000000, but .* 2 layers"),
    "an astronomic width": ({"n_inner": 2**62}, "h.0.mlp.c_fc.weight has shape"),
    "a negative width": ({"n_inner": -4}, "h.0.mlp.c_fc.weight has shape"),
    "an astronomic vocabulary": ({"vocab_size": 2**62}, "wte.weight has shape"),
}


@pytest.mark.parametrize("case", REFUSED_CONFIGS)
def test_configs_that_disagree_are_refused(tmp_path, case):
    changes, message = REFUSED_CONFIGS[case]
    with pytest.raises(CheckpointError, match=message):
        load(lay(tmp_path, state(), stated(**changes)))


def test_the_number_of_a_layer_is_not_believed(tmp_path):
    """Where both files agree on a billion, that many names must not be built."""
    tensors = changed(h__99999__ln_1__weight=torch.ones(6))
    with pytest.raises(CheckpointError, match="n_layer 100000, but .* 3 layers"):
        load(lay(tmp_path, tensors, stated(n_layer=10**5)))


def test_a_name_of_any_length_makes_a_short_line(tmp_path):
    with pytest.raises(CheckpointError, match="unknown weights: xxx") as caught:
        load(lay(tmp_path, changed(**{"x" * 10**5: torch.ones(6)})))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_config_that_is_no_object_is_refused(tmp_path, text):
    lay(tmp_path, state())
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(CheckpointError, match="config.json"):
        load(tmp_path)


def test_what_is_missing_is_named(tmp_path):
    (tmp_path / "a-file").touch()
    for no_folder in ("absent", "a-file"):
        with pytest.raises(CheckpointError, match="no folder .*download_weights"):
            load(tmp_path / no_folder)
    with pytest.raises(CheckpointError, match=r"config.json \(No such file or d.*\);"):
        load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(stated()))
    with pytest.raises(CheckpointError, match="no weights in"):
        load(tmp_path)
    (tmp_path / "model.safetensors.part").touch()
    with pytest.raises(CheckpointError, match="unfinished download: run it again"):
        load(tmp_path)


def test_types_that_are_no_weights_are_refused(tmp_path):
    save(MODEL, tmp_path)
    with pytest.raises(CheckpointError, match="dtype must be one of"):
        load(tmp_path, dtype=torch.int8)
    with pytest.raises(CheckpointError, match="dtype must be one of"):
        save(MODEL, tmp_path, dtype=torch.int8)
    with pytest.raises(CheckpointError, match="eos_id must be from 0 to 10, got 11"):
        save(MODEL, tmp_path, eos_id=11)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_file_cut_short_anywhere_is_refused(tmp_path, name):
    lay(tmp_path, state(), name=name)
    raw = (tmp_path / name).read_bytes()
    for length in [*range(0, len(raw), 211), len(raw) - 1]:
        (tmp_path / name).write_bytes(raw[:length])
        with pytest.raises(CheckpointError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load(tmp_path)


# --- shards -------------------------------------------------------------------------


def lay_shards(folder: Path, suffix: str) -> Path:
    """Two files and their index, split in the middle; returns the index."""
    stem = "model" if suffix == "safetensors" else "pytorch_model"
    tensors, file_of = prefixed("transformer.")(), {}
    keys = sorted(tensors)
    for number, part in enumerate((keys[:9], keys[9:]), start=1):
        name = f"{stem}-{number:05}-of-00002.{suffix}"
        lay(folder, {key: tensors[key] for key in part}, name=name)
        file_of |= dict.fromkeys(part, name)
    index = folder / f"{stem}.{suffix}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": file_of}))
    return index


def edit(index: Path, change) -> None:
    found = json.loads(index.read_text())
    change(found["weight_map"])
    index.write_text(json.dumps(found))


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_shards_add_up(tmp_path, suffix):
    lay_shards(tmp_path, suffix)
    assert same_model(load(tmp_path))


KEY = "transformer.wte.weight"
BAD_INDEXES = {
    "a key of no file": (lambda m: m.pop(KEY), "wte.weight, which .* in no file"),
    "a key in another": (
        lambda m: m.update({KEY: "model-00001-of-00002.safetensors"}),
        "which .* expects in model-00001",
    ),
    "a key too many": (
        lambda m: m.update(more="model-00001-of-00002.safetensors"),
        "lacks more",
    ),
    "a missing file": (lambda m: m.update({KEY: "c.safetensors"}), "names c.safet"),
    "a file elsewhere": (lambda m: m.update({KEY: "../a.safetensors"}), "outside"),
    "an absolute path": (lambda m: m.update({KEY: "/a.safetensors"}), "outside"),
    "no file name": (lambda m: m.update({KEY: 5}), "no index of shards"),
}


@pytest.mark.parametrize("case", BAD_INDEXES)
def test_an_index_that_disagrees_is_refused(tmp_path, case):
    change, message = BAD_INDEXES[case]
    edit(lay_shards(tmp_path, "safetensors"), change)
    with pytest.raises(CheckpointError, match=message):
        load(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"weight_map": []}'])
def test_an_index_that_is_none_is_refused(tmp_path, text):
    lay_shards(tmp_path, "safetensors").write_text(text)
    with pytest.raises(CheckpointError, match="is no index of shards"):
        load(tmp_path)


# --- pickles ------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [False, True])
def test_a_pickle_beside_safetensors_is_not_touched(tmp_path, shards):
    lay(tmp_path, state(UNTIED), name="pytorch_model.bin")
    if shards:
        lay_shards(tmp_path, "safetensors")
    else:
        lay(tmp_path, state())
    assert same_model(load(tmp_path))


def test_the_older_pickle_format(tmp_path):
    lay(tmp_path, state())
    (tmp_path / "model.safetensors").unlink()
    file = tmp_path / "pytorch_model.bin"
    torch.save(state(), file, _use_new_zipfile_serialization=False)
    assert same_model(load(tmp_path))


def test_a_training_state_around_the_weights(tmp_path):
    nested = {"model": prefixed("_orig_mod.")(), "iter_num": 3, "optimizer": {"lr": 1}}
    assert same_model(load(lay(tmp_path, nested, name="pytorch_model.bin")))


class Payload:
    """What a hostile pickle does: run something of its own while it is loaded."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return (self.call, self.arguments)


PAYLOADS = {
    "posix.system": Payload(os.system, "touch ran"),
    "nt.system": Payload(os.system, "touch ran"),
    "exec": Payload(exec, "open('ran', 'w')"),
    "getattr": Payload(Path("ran").touch),
}


@pytest.mark.parametrize("asked", PAYLOADS)
@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_that_wants_more_is_refused_by_name(
    tmp_path, monkeypatch, zipped, asked
):
    if asked.endswith(".system") and not asked.startswith(os.name):
        pytest.skip("another system's name for it")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(stated()))
    tensors = {"wte.weight": PAYLOADS[asked]}
    file = tmp_path / "pytorch_model.bin"
    torch.save(tensors, file, _use_new_zipfile_serialization=zipped)
    # Older releases of torch say builtins.exec.
    with pytest.raises(CheckpointError, match=rf"refused: .*\((builtins\.)?{asked}\)"):
        load(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_refused_file_is_said_in_one_line_and_nothing_else(tmp_path, protocol):
    """torch has its own warnings about such files: they would be more lines."""
    lay(tmp_path, state())
    (tmp_path / "model.safetensors").unlink()
    data = pickle.dumps({"wte.weight": 1}, protocol)
    (tmp_path / "pytorch_model.bin").write_bytes(data)
    with pytest.raises(CheckpointError) as caught, warnings.catch_warnings():
        warnings.simplefilter("error")
        load(tmp_path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "found, message",
    [
        ([torch.ones(2)], "holds a list"),
        ({"wte.weight": 3}, "'wte.weight' is a int, expected a dense tensor"),
        ({3: torch.ones(2)}, "3 is a Tensor"),
        ({"a": torch.ones(2, 2).to_sparse()}, "expected a dense tensor"),
        ({"a": torch.ones(2, 2, device="meta")}, "expected a dense tensor"),
        ({"a": torch.ones(1).expand(10**12)}, "expected a dense tensor"),
    ],
)
def test_a_pickle_of_something_else_is_refused(tmp_path, found, message):
    with pytest.raises(CheckpointError, match=message), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load(lay(tmp_path, found, name="pytorch_model.bin"))

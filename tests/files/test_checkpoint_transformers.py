"""Folders that `transformers` saves, loaded by us, against `transformers` itself.

Shapes are those of the real models (random weights, every one of them mattering). The
real shapes take minutes and gigabytes of temporary files: `pytest --slow`.
"""

import json

import pytest
import torch

from minispec.files import checkpoint
from minispec.model.gpt2 import GPTConfig

from support.folders import same_model
from support.strategies import tiny_gpt

transformers = pytest.importorskip("transformers", reason="needs transformers")

GPT2 = {"vocab_size": 50257, "n_positions": 1024}
TINY = dict(
    n_layer=3, n_head=2, n_embd=12, n_inner=20, vocab_size=41, n_positions=100,
    activation_function="gelu", scale_attn_by_inverse_layer_idx=True,
)  # fmt: skip
SHAPES = {
    "distilgpt2": dict(n_layer=6, n_head=12, n_embd=768, **GPT2),
    "gpt2": dict(n_layer=12, n_head=12, n_embd=768, **GPT2),
    "gpt2-medium": dict(n_layer=24, n_head=16, n_embd=1024, **GPT2),
    "gpt2-large, 3 layers": dict(n_layer=3, n_head=20, n_embd=1280, **GPT2),
    "gpt2-xl, 3 layers": dict(n_layer=3, n_head=25, n_embd=1600, **GPT2),
}
SLOW = [pytest.param(SHAPES[name], marks=pytest.mark.slow, id=name) for name in SHAPES]


@pytest.fixture(scope="module", params=[pytest.param(TINY, id="tiny"), *SLOW])
def reference(request):
    """A random model of each shape; biases and norms are perturbed to be seen."""
    torch.manual_seed(3)
    config = transformers.GPT2Config(**request.param, initializer_range=0.1)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


@pytest.fixture(scope="module")
def ours(reference, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    reference.save_pretrained(folder)
    model = checkpoint.load(folder)
    (folder / "model.safetensors").unlink()  # gigabytes, and mapped as it is
    return model


@pytest.mark.parametrize("form", ["shards", "bin", "alone"])
def test_every_form_holds_the_very_same_weights(reference, ours, tmp_path, form):
    """Bit for bit: whatever holds for the model of one form holds for all."""
    n_bytes = 4 * sum(p.numel() for p in reference.parameters())
    if form == "shards":
        reference.save_pretrained(tmp_path, max_shard_size=f"{n_bytes // 3000 + 1}KB")
        assert (tmp_path / "model.safetensors.index.json").exists()
    else:  # what `save_pretrained` no longer writes
        reference.config.save_pretrained(tmp_path)
    if form == "bin":
        torch.save(reference.state_dict(), tmp_path / "pytorch_model.bin")
    if form == "alone":  # of the two names of a tied tensor, it keeps one
        safetensors = pytest.importorskip("safetensors.torch")
        safetensors.save_model(reference, str(tmp_path / "model.safetensors"))
    assert same_model(checkpoint.load(tmp_path), like=ours)
    theirs = reference.transformer.state_dict()
    assert all(torch.equal(ours.state_dict()[key], theirs[key]) for key in theirs)


def prompt(model, n):  # -> [1, n]
    seed = torch.Generator().manual_seed(n)
    return torch.randint(0, model.config.vocab_size, (1, n), generator=seed)


def rounding_of(logits):
    """Five times what float32 was seen to leave of sums over 24 layers.

    It differs from one processor to the next; `test_logits_agree_in_float64` is exact.
    """
    return 1e-4 * logits.abs().max().item()


def in_blocks(model, ids, cuts):
    """Logits of all positions, fed block by block through the cache."""
    cache, edges = model.new_cache(), [0, *cuts, ids.shape[1]]
    blocks = [model(ids[:, a:b], cache) for a, b in zip(edges, edges[1:]) if a < b]
    return torch.cat(blocks, dim=1)


@torch.no_grad()
def test_logits_agree_for_any_split_of_the_prompt(reference, ours):
    ids = prompt(ours, 33)
    theirs = reference(ids).logits
    for cuts in ([], [1], [32], [1, 2], [7, 8, 20], range(1, 33)):
        split = in_blocks(ours, ids, cuts)
        torch.testing.assert_close(split, theirs, rtol=0, atol=rounding_of(theirs))


@torch.no_grad()
def test_logits_agree_in_float64(tmp_path):
    torch.manual_seed(4)
    config = transformers.GPT2Config(**TINY, initializer_range=0.5)
    reference = transformers.GPT2LMHeadModel(config).eval()
    reference.save_pretrained(tmp_path)
    model = checkpoint.load(tmp_path, dtype=torch.float64)
    ids = prompt(model, 40)
    theirs = reference.double()(ids).logits
    for logits in (model(ids), in_blocks(model, ids, [5, 6, 39])):
        torch.testing.assert_close(logits, theirs, rtol=0, atol=1e-10)


@torch.no_grad()
def test_64_greedy_tokens_agree(reference, ours):
    """Each of theirs has our highest logit after the same text, up to rounding."""
    ids, cache = prompt(ours, 9), ours.new_cache()
    theirs = reference.generate(
        ids, do_sample=False, max_new_tokens=64, pad_token_id=0, eos_token_id=None
    )[0, 9:]
    assert len(theirs) == 64
    for token in theirs:
        logits = ours(ids, cache, last=1)[0, 0]
        assert logits[token] >= logits.max() - rounding_of(logits)
        ids = token.view(1, 1)


# --- the way back: what we save ------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
@torch.no_grad()
def test_what_we_save_loads_there_as_it_stands_and_comes_back(tmp_path, tied):
    config = GPTConfig(**TINY, tie_word_embeddings=tied)
    model = tiny_gpt(config, seed=5, dtype=torch.float32)
    checkpoint.save(torch.compile(model), tmp_path / "a", eos_id=7)
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "a", output_loading_info=True
    )
    assert not any(report.values())  # no key missing, unexpected or of another shape
    assert theirs.config.eos_token_id == theirs.config.bos_token_id == 7
    ids = prompt(model, 20)
    torch.testing.assert_close(theirs(ids).logits, model(ids), rtol=0, atol=1e-4)
    theirs.save_pretrained(tmp_path / "b")
    assert same_model(checkpoint.load(tmp_path / "b"), like=model)
    assert checkpoint.stated_eos_ids(tmp_path / "b") == (7,)


def test_half_precision_stays_half(tmp_path):
    model = tiny_gpt(GPTConfig(**TINY), 6, dtype=torch.float32)
    checkpoint.save(model, tmp_path, dtype=torch.float16)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["torch_dtype"] == "float16"
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, dtype="auto")
    assert theirs.dtype == torch.float16

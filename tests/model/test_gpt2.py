"""GPT-2 against a plain oracle, against transformers, and against itself in pieces."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from minispec import GPT, GPTConfig
from minispec.model.attention import fused_attention, open_attention

from support.checks import agree
from support.oracles import naive_gpt_logits
from support.strategies import SEEDS, Case, cases, configs, tiny_gpt

agree = partial(agree, tolerance=1e-10)
SMALL = GPTConfig(n_layer=2, n_head=2, n_embd=8, vocab_size=5, n_positions=6)
FORMS = (open_attention, fused_attention)


def cached_logits(model: GPT, blocks: list[Tensor]) -> Tensor:  # [B, T, V]
    """The blocks' logits, fed one after the other over one cache."""
    cache = model.new_cache(batch=blocks[0].shape[0])
    return torch.cat([model(block, cache) for block in blocks], dim=1)


# ------------------------------------------------------------------ the whole model


@pytest.mark.exercise2
@given(case=cases())
def test_logits_are_the_oracles_in_one_pass_and_in_any_split(case: Case) -> None:
    state = case.model().state_dict()
    oracle = torch.tensor(naive_gpt_logits(state, case.config, case.tokens))[None]
    for form in FORMS:
        model, what = case.model(attend=form), dict[str, Any](form=form.__name__)
        agree(model(case.ids), oracle, "One pass gives other logits.", **what)
        broke = "Fed in blocks over a cache, the logits differ."
        what["blocks"] = case.split
        agree(cached_logits(model, case.blocks), oracle, broke, **what)


@given(case=cases(), data=st.data())
def test_a_batch_of_two_is_two_singles(case: Case, data: Any) -> None:
    model, second = case.model(), data.draw(st.permutations(case.tokens))
    batch = torch.tensor([case.tokens, second])
    expected = torch.cat([model(batch[:1]), model(batch[1:])])
    agree(model(batch), expected, "One pass over both.")
    blocks = list(batch.split(case.split, dim=1))
    agree(cached_logits(model, blocks), expected, "Both over one cache.")


@given(case=cases(), data=st.data())
def test_the_last_rows_alone_pass_through_the_head(case: Case, data: Any) -> None:
    model, T = case.model(), len(case.tokens)
    last = data.draw(st.integers(1, T))
    cache, whole = model.new_cache(), model(case.ids)
    hidden = model.trunk(case.ids)
    assert hidden.shape == (1, T, case.config.n_embd)
    assert model.head(hidden).equal(whole)
    agree(model(case.ids, cache, last=last), whole[:, -last:], "Other rows came back.")
    assert cache.length == T


@pytest.mark.exercise2
@pytest.mark.parametrize("attend", FORMS)
@pytest.mark.parametrize("S", [0, 2])
def test_a_tree_of_tokens_is_each_of_its_paths(attend: Any, S: int) -> None:
    """Two branches, 1 2 and 3, in one pass with positions and a mask of their own."""
    model, prefix = tiny_gpt(SMALL, 3, attend=attend), [0, 4][:S]
    cache = model.new_cache(capacity=9)
    if prefix:
        model(torch.tensor([prefix]), cache)
    sees = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 0, 1]]).bool()
    sees = torch.cat([torch.ones(3, S).bool(), sees], dim=1)
    mask = torch.zeros(3, S + 3).double().masked_fill(~sees, -torch.inf)
    positions = torch.tensor([S, S + 1, S])
    logits = model(torch.tensor([[1, 2, 3]]), cache, None, positions, mask)
    for path, rows in (([1, 2], [0, 1]), ([3], [2])):
        alone = model(torch.tensor([prefix + path]))[:, S:]
        agree(logits[:, rows], alone, "A branch sees another.", path=path, cached=S)


def test_positions_given_are_those_used() -> None:
    """S + T may exceed the context then; a position that is not there is an error."""
    model, ids = tiny_gpt(SMALL, 0), torch.tensor([[1, 2]])
    cache = model.new_cache(capacity=9)
    for first in (0, 2, 4, 4):  # eight tokens in a context of six
        model(ids, cache, positions=torch.tensor([first, first + 1]))
    assert cache.length == 8
    each = torch.tensor([[0, 1], [3, 4]])  # one row for each text
    both = model(ids.expand(2, 2), positions=each)
    agree(both[:1], model(ids), "Row 0 has the default positions.")
    assert not torch.allclose(both[0], both[1])
    with pytest.raises(IndexError):
        model(ids, positions=torch.tensor([5, 6]))


# ------------------------------------------------------------------------- the limits


@given(configs(), SEEDS)
def test_the_context_fills_to_its_last_position_and_no_further(
    config: GPTConfig, seed: int
) -> None:
    model, n = tiny_gpt(config, seed), config.n_positions
    full, cache = torch.zeros(1, n, dtype=torch.long), model.new_cache()
    steps = [model(token, cache) for token in full.split(1, dim=1)]
    agree(torch.cat(steps, 1), model(full), "One by one to the end of the context.")
    for ids, past in ((full[:, :1], cache), (torch.zeros(1, n + 1).long(), None)):
        with pytest.raises(ValueError, match=f"{n + 1} tokens do not fit .* of {n}"):
            model(ids, past)
    assert cache.length == n


@pytest.mark.parametrize(
    "field, value, says",
    [
        ("n_layer", 0, "n_layer must be at least 1, got 0"),
        ("n_head", -1, "n_head must be at least 1, got -1"),
        ("n_positions", 0, "n_positions must be at least 1"),
        ("n_inner", -8, "n_inner must be at least 1, got -8"),
        ("n_layer", 2.0, "n_layer must be a whole number, got 2.0"),
        ("n_inner", "8", "n_inner must be a whole number, got '8'"),
        ("n_head", 3, "multiple of n_head, got 8 and 3"),
        ("activation_function", "swish", "gelu_new, gelu, relu, got 'swish'"),
        ("layer_norm_epsilon", math.nan, "from 0 to below 1, got nan"),
    ],
)
def test_a_shape_that_cannot_be_is_named(field: str, value: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        dataclasses.replace(SMALL, **{field: value})


@pytest.mark.exercise2
@pytest.mark.parametrize(
    "dtype, off", [(torch.float32, 1e-5), (torch.float16, 0.02), (torch.bfloat16, 0.15)]
)
def test_narrower_types_stay_near_float64(dtype: torch.dtype, off: float) -> None:
    """With a cache and without; a mask of -1e10 would be NaN in float16."""
    ids = torch.tensor([[0, 4, 2, 2, 3, 1]])
    blocks = list(ids.split([1, 3, 2], dim=1))
    exact = tiny_gpt(SMALL, 1)(ids).softmax(-1)
    for form in FORMS:
        rounded = tiny_gpt(SMALL, 1, dtype, form)
        for logits in (rounded(ids), cached_logits(rounded, blocks)):
            assert logits.dtype == dtype
            agree(logits.double().softmax(-1), exact, "Too far off.", tolerance=off)


# ----------------------------------------------------------------------- parameters


def test_keys_and_shapes_are_gpt2s_and_nothing_else() -> None:
    """As Hugging Face stores the bare model, and a head where it is not tied."""
    model = GPT(dataclasses.replace(SMALL, n_inner=7, tie_word_embeddings=False))
    shapes = {"wte.weight": (5, 8), "wpe.weight": (6, 8), "lm_head.weight": (5, 8)}
    matrices = {"attn.c_attn": (8, 24), "attn.c_proj": (8, 8)}
    matrices |= {"mlp.c_fc": (8, 7), "mlp.c_proj": (7, 8)}
    layers = {f"h.{i}.{name}": s for i in (0, 1) for name, s in matrices.items()}
    norms = ["h.0.ln_1", "h.0.ln_2", "h.1.ln_1", "h.1.ln_2", "ln_f"]
    shapes |= {f"{name}.weight": shape for name, shape in layers.items()}
    shapes |= {f"{name}.bias": shape[1:] for name, shape in layers.items()}
    shapes |= {f"{name}.{part}": (8,) for name in norms for part in ("weight", "bias")}
    state = model.state_dict()
    assert {name: tuple(tensor.shape) for name, tensor in state.items()} == shapes
    assert model.n_parameters == sum(tensor.numel() for tensor in state.values())
    tied = sum(rows.numel() for name, rows in state.items() if name != "lm_head.weight")
    assert GPT(dataclasses.replace(SMALL, n_inner=7)).n_parameters == tied


def test_initialize_is_gpt2s_own_and_depends_on_its_generator_alone() -> None:
    config = dataclasses.replace(SMALL, n_embd=128, vocab_size=512)
    before = torch.get_rng_state()
    state, again = (
        GPT(config).initialize(torch.Generator().manual_seed(0), std=0.1).state_dict()
        for _ in range(2)
    )
    assert torch.equal(torch.get_rng_state(), before)
    for name, tensor in state.items():
        assert tensor.equal(again[name]), name
        if name.endswith("bias"):
            assert not tensor.any(), name
        elif "ln_" in name:
            assert (tensor == 1).all(), name
        else:  # residual outputs: divided by sqrt(2 * n_layer)
            expected = 0.05 if name.endswith("c_proj.weight") else 0.1
            assert tensor.std() == pytest.approx(expected, rel=0.1), name


@pytest.mark.parametrize("asked, B, slots", [((), 1, 6), ((3, 2), 2, 3)])
def test_a_new_cache_fits_its_model(asked: Any, B: int, slots: int) -> None:
    cache = tiny_gpt(SMALL, 0).new_cache(*asked)
    assert (cache.capacity, cache.length) == (slots, 0)
    assert len(cache.keys) == len(cache.values) == 2
    for tensor in [*cache.keys, *cache.values]:
        assert (tensor.shape, tensor.dtype) == ((B, 2, slots, 4), torch.float64)


# --------------------------------------------------------------------- transformers


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"activation_function": "gelu", "n_inner": 13},
        {"activation_function": "relu", "layer_norm_epsilon": 0.1},
        {"scale_attn_by_inverse_layer_idx": True, "tie_word_embeddings": False},
    ],
)
@torch.no_grad()
def test_transformers_gives_the_same_logits(variant: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers")
    config = GPTConfig(3, 4, 32, vocab_size=50, n_positions=24, **variant)
    ours, fields = tiny_gpt(config, 7), dataclasses.asdict(config)
    # Without token ids of its own a config takes 50256, beyond a tiny vocabulary.
    fields |= {"bos_token_id": None, "eos_token_id": None}
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(**fields))
    state = ours.state_dict()
    head = {"lm_head.weight": state.pop("lm_head.weight", state["wte.weight"])}
    state = {f"transformer.{name}": value for name, value in state.items()} | head
    theirs.double().eval().load_state_dict(state, strict=True)
    ids = torch.randint(50, (2, 24), generator=torch.Generator().manual_seed(3))
    expected = theirs(ids).logits
    agree(ours(ids), expected, "transformers says otherwise.")
    blocks = list(ids.split([5, 1, 1, 6, 11], dim=1))
    agree(cached_logits(ours, blocks), expected, "In blocks.")


NONE = torch.zeros(2, 0, dtype=torch.long)


@pytest.mark.parametrize(
    "says, given",
    [
        ("at least one, got", {"ids": NONE}),
        ("at least one, got", {"ids": torch.tensor([0, 1])}),
        ("from 1 to the 2 tokens fed, got 0", {"last": 0}),  # [-0:] is all of them
        ("from 1 to the 2 tokens fed, got 3", {"last": 3}),
        (r"positions must be .* = \[3, 2\], got \[1\]", {"positions": torch.zeros(1)}),
        (r"got \[3, 1\]", {"positions": torch.zeros(3, 1)}),
        (r"got \[1, 2\]", {"positions": torch.zeros(1, 2)}),
        ("a mask is added to the scores", {"mask": torch.ones(2, 3).bool()}),
        ("must be torch.float64", {"mask": torch.zeros(2, 3)}),
        (r"= \[3, 1, 2, 3\], got \[3, 2, 3\]", {"mask": torch.zeros(3, 2, 3)}),
        (r"got \[2, 2\]", {"mask": torch.zeros(2, 2)}),  # without the cached one
        (r"got \[1, 3\]", {"mask": torch.zeros(1, 3)}),
        (r"got \[3\]", {"mask": torch.zeros(3)}),
    ],
)
def test_what_would_broadcast_or_is_not_added_is_an_error(
    says: str, given: dict[str, Any]
) -> None:
    """Two new tokens after one that is cached, in a batch of three."""
    model = tiny_gpt(SMALL, 1)
    cache = model.new_cache(batch=3)
    model(torch.zeros(3, 1, dtype=torch.long), cache)
    ids = given.pop("ids", torch.tensor([[0, 1]] * 3))
    with pytest.raises(ValueError, match=says):
        model(ids, cache, **given)
    assert cache.length == 1

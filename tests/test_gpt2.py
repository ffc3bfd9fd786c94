"""GPT-2 against a plain oracle, against transformers, and against itself in pieces."""

from __future__ import annotations

import dataclasses
import itertools
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from minispec.attention import fused_attention
from minispec.gpt2 import GPT, GPTConfig

from oracles import naive_gpt_logits
from strategies import SEEDS, Case, cases, configs, tiny_gpt
from under_test import under_test

same = partial(torch.testing.assert_close, rtol=0, atol=1e-10)  # in float64
SMALL = GPTConfig(n_layer=2, n_head=2, n_embd=8, vocab_size=5, n_positions=6)


def cached_logits(model: GPT, blocks: list[Tensor]) -> Tensor:  # [B, T, V]
    """The blocks' logits, fed one after the other over one cache."""
    cache = model.new_cache(batch=blocks[0].shape[0])
    return torch.cat([model(block, cache) for block in blocks], dim=1)


# ------------------------------------------------------------------ the whole model


@pytest.mark.exercise2
@given(case=cases())
def test_logits_are_the_oracles(impl: Any, case: Case) -> None:
    model = case.model()
    expected = naive_gpt_logits(model.state_dict(), case.config, case.tokens)
    same(model(case.ids)[0], torch.tensor(expected))
    same(under_test(impl, model)(case.ids)[0], torch.tensor(expected))


@pytest.mark.exercise2
@given(case=cases())
def test_open_and_fused_attention_agree(impl: Any, case: Case) -> None:
    spelled, fused = under_test(impl, case.model()), case.model()
    same(spelled(case.ids), fused(case.ids))
    same(cached_logits(spelled, case.blocks), cached_logits(fused, case.blocks))


@pytest.mark.exercise2
@given(case=cases())
def test_any_split_over_a_cache_gives_the_logits_of_one_pass(
    impl: Any, case: Case
) -> None:
    for model in (case.model(), under_test(impl, case.model())):
        same(cached_logits(model, case.blocks), model(case.ids))


@given(cases())
def test_head_of_trunk_is_forward(case: Case) -> None:
    model = case.model()
    apart, whole = model.new_cache(), model.new_cache()
    for block in case.blocks:
        hidden = model.trunk(block, apart)
        assert hidden.shape == (*block.shape, case.config.n_embd)
        assert torch.equal(model.head(hidden), model(block, whole))
    assert apart.length == whole.length == len(case.tokens)


@given(cases(min_size=2), st.data())
def test_a_later_token_changes_no_earlier_logits(case: Case, data: Any) -> None:
    model = case.model()
    place = data.draw(st.integers(1, len(case.tokens) - 1))
    changed = case.ids.clone()
    changed[0, place] = (changed[0, place] + 1) % case.config.vocab_size
    before, after = model(case.ids)[:, :place], model(changed)[:, :place]
    same(after, before)


@given(cases(), st.data())
def test_a_batch_of_two_is_two_singles(case: Case, data: Any) -> None:
    model = case.model()
    second = data.draw(st.permutations(case.tokens))
    batch = torch.tensor([case.tokens, second])
    expected = torch.cat([model(batch[:1]), model(batch[1:])])
    same(model(batch), expected)
    pieces = list(batch.split(case.split, dim=1))
    same(cached_logits(model, pieces), expected)


# -------------------------------------------------------------------------- the mask


@pytest.mark.exercise2
@given(n_new=st.integers(1, 8), n_past=st.integers(0, 8))
def test_the_mask_lets_row_i_see_the_past_and_new_tokens_up_to_itself(
    impl: Any, n_new: int, n_past: int
) -> None:
    n_all = n_past + n_new
    mask = impl.attention.causal_mask(n_new, n_all, torch.zeros(1))
    if n_new == 1:
        assert mask is None  # the newest token sees everything
        return
    assert mask is not None and mask.shape == (n_new, n_all)
    for i, s in itertools.product(range(n_new), range(n_all)):
        assert mask[i, s] == (0.0 if s <= n_past + i else -torch.inf)


@pytest.mark.exercise2
@given(
    n_new=st.integers(1, 4),
    n_past=st.integers(0, 4),
    scale=st.floats(0.1, 2.0),
    seed=SEEDS,
)
def test_both_attention_forms_are_the_same_function(
    impl: Any, n_new: int, n_past: int, scale: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    query, key, value = (
        torch.randn(2, 3, T, 4, generator=generator, dtype=torch.float64)
        for T in (n_new, n_past + n_new, n_past + n_new)
    )
    mask = impl.attention.causal_mask(n_new, n_past + n_new, query)
    inputs = query, key, value, mask, scale
    same(impl.attention.open_attention(*inputs), fused_attention(*inputs))


# ------------------------------------------------------------------------- the limits


@given(configs(), SEEDS)
def test_the_context_fills_to_its_last_position_and_no_further(
    config: GPTConfig, seed: int
) -> None:
    model = tiny_gpt(config, seed)
    full = torch.zeros(1, config.n_positions, dtype=torch.long)
    whole = model(full)
    cache = model.new_cache()
    for t in range(config.n_positions):
        step = model(full[:, t : t + 1], cache)
        same(step, whole[:, t : t + 1])
    told = f"{config.n_positions + 1} tokens do not fit the context of "
    with pytest.raises(ValueError, match=told + str(config.n_positions)):
        model(full[:, :1], cache)
    with pytest.raises(ValueError, match=told + str(config.n_positions)):
        model(torch.zeros(1, config.n_positions + 1, dtype=torch.long))
    assert cache.length == config.n_positions


def test_a_short_caches_own_limit_is_told_and_leaves_it_usable() -> None:
    model = tiny_gpt(SMALL, seed=0)
    ids = torch.tensor([[0, 1, 2, 3]])
    cache = model.new_cache(capacity=3)
    model(ids[:, :2], cache)
    with pytest.raises(ValueError, match="the cache holds 3 positions and 4 are"):
        model(ids[:, 2:], cache)
    assert cache.length == 2
    same(model(ids[:, 2:3], cache), model(ids)[:, 2:3])


@pytest.mark.parametrize(
    "field", ["n_layer", "n_head", "n_embd", "vocab_size", "n_positions"]
)
@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_refused(field: str, size: int) -> None:
    change: dict[str, Any] = {field: size}
    with pytest.raises(ValueError, match=f"{field} must be at least 1, got {size}"):
        dataclasses.replace(SMALL, **change)


def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of n_head, got 8 and 3"):
        dataclasses.replace(SMALL, n_head=3)


def test_an_unknown_activation_is_refused_and_the_known_ones_named() -> None:
    with pytest.raises(ValueError, match="gelu_new, gelu, relu, got 'swish'"):
        dataclasses.replace(SMALL, activation_function="swish")


# -------------------------------------------------------------------- number types


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@given(case=cases())
def test_half_precision_is_finite_with_and_without_a_cache(
    dtype: torch.dtype, case: Case
) -> None:
    model = case.model(dtype)
    for logits in (model(case.ids), cached_logits(model, case.blocks)):
        assert logits.dtype == dtype
        assert logits.isfinite().all()


@pytest.mark.parametrize(
    "dtype, off", [(torch.float32, 1e-5), (torch.float16, 0.02), (torch.bfloat16, 0.15)]
)
def test_narrower_types_stay_near_float64(dtype: torch.dtype, off: float) -> None:
    ids = torch.tensor([[0, 4, 2, 2, 3, 1]])
    exact, rounded = tiny_gpt(SMALL, 1), tiny_gpt(SMALL, 1, dtype)
    torch.testing.assert_close(
        rounded(ids).double().softmax(-1), exact(ids).softmax(-1), rtol=0, atol=off
    )


# ----------------------------------------------------------------------- parameters


def gpt2_shapes(config: GPTConfig) -> dict[str, tuple[int, ...]]:
    """The tensors of a GPT-2 checkpoint, as Hugging Face stores the bare model."""
    E, inner = config.n_embd, config.n_inner or 4 * config.n_embd
    shapes: dict[str, tuple[int, ...]] = {
        "wte.weight": (config.vocab_size, E),
        "wpe.weight": (config.n_positions, E),
        "ln_f.weight": (E,),
        "ln_f.bias": (E,),
    }
    for layer in range(config.n_layer):
        block: dict[str, tuple[int, ...]] = {
            "ln_1.weight": (E,),
            "ln_1.bias": (E,),
            "attn.c_attn.weight": (E, 3 * E),
            "attn.c_attn.bias": (3 * E,),
            "attn.c_proj.weight": (E, E),
            "attn.c_proj.bias": (E,),
            "ln_2.weight": (E,),
            "ln_2.bias": (E,),
            "mlp.c_fc.weight": (E, inner),
            "mlp.c_fc.bias": (inner,),
            "mlp.c_proj.weight": (inner, E),
            "mlp.c_proj.bias": (E,),
        }
        shapes |= {f"h.{layer}.{name}": shape for name, shape in block.items()}
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, E)
    return shapes


@given(configs())
def test_keys_and_shapes_are_gpt2s_and_nothing_else(config: GPTConfig) -> None:
    state = GPT(config).state_dict()
    found = {name: tuple(tensor.shape) for name, tensor in state.items()}
    assert found == gpt2_shapes(config)


@given(cases())
def test_a_checkpoints_tensors_become_the_parameters_themselves(case: Case) -> None:
    tensors = case.model().state_dict()
    with torch.device("meta"):
        model = GPT(case.config)
    model.load_state_dict(tensors, assign=True)
    for name, parameter in model.named_parameters():
        assert parameter.data_ptr() == tensors[name].data_ptr(), name
        assert parameter.is_contiguous(), name
    assert torch.equal(model(case.ids), case.model()(case.ids))


@given(configs(), SEEDS)
def test_initialize_depends_on_its_generator_alone(
    config: GPTConfig, seed: int
) -> None:
    before = torch.get_rng_state()
    first, second = (
        GPT(config).initialize(torch.Generator().manual_seed(seed)).state_dict()
        for _ in range(2)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert all(tensor.isfinite().all() for tensor in first.values())


def test_initialize_is_gpt2s_own() -> None:
    config = dataclasses.replace(SMALL, n_embd=128, vocab_size=512, n_layer=2)
    model = GPT(config).initialize(torch.Generator().manual_seed(0), std=0.1)
    for name, tensor in model.state_dict().items():
        if name.endswith("bias"):
            assert not tensor.any(), name
        elif "ln_" in name:
            assert (tensor == 1).all(), name
        else:  # residual outputs: divided by sqrt(2 * n_layer)
            expected = 0.05 if name.endswith("c_proj.weight") else 0.1
            assert tensor.std() == pytest.approx(expected, rel=0.1), name


@given(configs(), st.integers(1, 5), st.integers(1, 3))
def test_a_new_cache_fits_its_model(
    config: GPTConfig, capacity: int, batch: int
) -> None:
    model = GPT(config).to(torch.float64)
    head_width = config.n_embd // config.n_head
    for cache, slots, rows in (
        (model.new_cache(), config.n_positions, 1),
        (model.new_cache(capacity, batch), capacity, batch),
    ):
        assert (cache.capacity, cache.length) == (slots, 0)
        assert len(cache.keys) == len(cache.values) == config.n_layer
        for tensor in [*cache.keys, *cache.values]:
            assert tensor.shape == (rows, config.n_head, slots, head_width)
            assert tensor.dtype == torch.float64


# --------------------------------------------------------------------- transformers

VARIANTS: dict[str, dict[str, Any]] = {
    "gelu_new": {},
    "gelu": {"activation_function": "gelu"},
    "relu": {"activation_function": "relu"},
    "n_inner": {"n_inner": 13},
    "inverse_layer": {"scale_attn_by_inverse_layer_idx": True},
    "untied": {"tie_word_embeddings": False},
    "epsilon": {"layer_norm_epsilon": 0.1},
}


def their_model(model: GPT, dtype: torch.dtype) -> Any:
    """transformers' GPT-2 of the same config with the same weights."""
    transformers = pytest.importorskip("transformers")
    fields = dataclasses.asdict(model.config)
    # Without token ids of its own a config takes 50256, beyond a tiny vocabulary.
    config = transformers.GPT2Config(**fields, bos_token_id=None, eos_token_id=None)
    theirs = transformers.GPT2LMHeadModel(config).to(dtype).eval()
    state = {f"transformer.{name}": value for name, value in model.state_dict().items()}
    state["lm_head.weight"] = state.pop(
        "transformer.lm_head.weight", model.state_dict()["wte.weight"]
    )
    theirs.load_state_dict(state, strict=True)
    return theirs


@pytest.mark.parametrize("dtype, off", [(torch.float32, 1e-4), (torch.float64, 1e-10)])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated:FutureWarning")
@torch.no_grad()
def test_transformers_gives_the_same_logits(
    variant: str, dtype: torch.dtype, off: float
) -> None:
    config = GPTConfig(3, 4, 32, vocab_size=50, n_positions=24, **VARIANTS[variant])
    ours = tiny_gpt(config, seed=7, dtype=dtype)
    theirs = their_model(ours, dtype)
    ids = torch.randint(50, (2, 24), generator=torch.Generator().manual_seed(3))
    expected = theirs(ids).logits
    torch.testing.assert_close(ours(ids), expected, rtol=0, atol=off)

    cache, their_cache = ours.new_cache(batch=2), None
    for block in ids.split([5, 1, 1, 6, 11], dim=1):
        step = theirs(block, past_key_values=their_cache, use_cache=True)
        their_cache = step.past_key_values
        torch.testing.assert_close(ours(block, cache), step.logits, rtol=0, atol=off)


@given(cases(min_size=2))
def test_a_tiny_model_can_tell_tokens_apart(case: Case) -> None:
    """Guards this file: models too flat to see a mistake would prove nothing."""
    assume(case.config.n_embd > 2)
    assert case.model()(case.ids).std() > 1e-3

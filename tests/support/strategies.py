"""Hypothesis strategies: tiny models, token ids, probability rows, sampling chains.

Models are drawn as (config, seed), not as tensors: a failing example then prints as
two lines, and shrinks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import hypothesis.strategies as st
import torch
from hypothesis import assume
from hypothesis.strategies import DrawFn, SearchStrategy
from torch import Tensor

from minispec import GPT, GPTConfig, Sampling
from minispec.model.attention import AttentionForm, fused_attention
from minispec.model.gpt2 import ACTIVATIONS

SEEDS = st.integers(0, 2**32 - 1)

# --------------------------------------------------------------------------- models


@st.composite
def configs(draw: DrawFn) -> GPTConfig:
    """Tiny shapes, every activation, both flags, every sort of `n_inner`."""
    n_head = draw(st.integers(1, 3))
    return GPTConfig(
        n_layer=draw(st.integers(1, 3)),
        n_head=n_head,
        n_embd=n_head * draw(st.integers(1, 4)),
        vocab_size=draw(st.integers(2, 7)),
        n_positions=draw(st.integers(4, 12)),
        n_inner=draw(st.none() | st.integers(1, 9)),
        activation_function=draw(st.sampled_from(sorted(ACTIVATIONS))),
        layer_norm_epsilon=draw(st.sampled_from([1e-5, 1e-2])),
        scale_attn_by_inverse_layer_idx=draw(st.booleans()),
        tie_word_embeddings=draw(st.booleans()),
    )


@torch.no_grad()
def tiny_gpt(
    config: GPTConfig,
    seed: int,
    dtype: torch.dtype = torch.float64,
    attend: AttentionForm = fused_attention,
) -> GPT:
    """A model with weights large enough for every part of it to matter.

    A freshly initialised one has zero biases and unit norms, which hide mistakes in
    both; here they are perturbed too. The same seed gives the same weights, rounded
    to `dtype`.
    """
    generator = torch.Generator().manual_seed(seed)
    model = GPT(config, attend).to(torch.float64).initialize(generator, std=0.5)
    for parameter in model.parameters():
        if parameter.ndim == 1:  # biases and the norms' weights
            noise = torch.empty_like(parameter).normal_(generator=generator)
            parameter.add_(0.3 * noise)
    return model.to(dtype).eval().requires_grad_(False)


def id_sequences(
    vocab_size: int, min_size: int = 1, max_size: int = 8
) -> SearchStrategy[list[int]]:
    ids = st.integers(0, vocab_size - 1)
    return st.lists(ids, min_size=min_size, max_size=max_size)


@st.composite
def splits(draw: DrawFn, total: int) -> list[int]:
    """Sizes of consecutive blocks, each at least 1, that make up `total`."""
    cuts = draw(st.sets(st.integers(1, total - 1))) if total > 1 else set()
    edges = [0, *sorted(cuts), total]
    return [end - start for start, end in zip(edges, edges[1:])]


class Case(NamedTuple):
    """One model, one sequence of ids for it, and one way to cut that sequence."""

    config: GPTConfig
    seed: int
    tokens: list[int]
    split: list[int]

    @property
    def ids(self) -> Tensor:  # [1, T]
        return torch.tensor([self.tokens])

    @property
    def blocks(self) -> list[Tensor]:  # [1, size] each
        return list(self.ids.split(self.split, dim=1))

    def model(
        self,
        dtype: torch.dtype = torch.float64,
        attend: AttentionForm = fused_attention,
    ) -> GPT:
        return tiny_gpt(self.config, self.seed, dtype, attend)


@st.composite
def cases(draw: DrawFn, min_size: int = 1) -> Case:
    """A model and a sequence anywhere between `min_size` and its whole context."""
    config = draw(configs())
    longest = config.n_positions
    n = draw(st.sampled_from([min_size, longest]) | st.integers(min_size, longest))
    tokens = draw(id_sequences(config.vocab_size, n, n))
    return Case(config, draw(SEEDS), tokens, draw(splits(n)))


# ---------------------------------------------------------------- probability rows


def normalised(weights: list[float]) -> Tensor:  # -> [V] float64
    row = torch.tensor(weights, dtype=torch.float64)
    return row / row.sum()


def probability_rows(vocab_size: int) -> SearchStrategy[Tensor]:  # [V] float64
    """Rows that sum to 1: plain, with zeros, one-hot, nearly flat, with tiny masses."""

    def rows(weight: SearchStrategy[float]) -> SearchStrategy[Tensor]:
        columns = st.lists(weight, min_size=vocab_size, max_size=vocab_size)
        return columns.filter(any).map(normalised)

    counts = st.integers(0, 3).map(float)  # zeros, exact ties, one-hot
    nearly_flat = st.floats(-1e-9, 1e-9).map(lambda tilt: 1.0 + tilt)
    scattered = st.integers(-30, 0).map(lambda power: 10.0**power)
    return st.one_of(
        rows(st.floats(0.05, 1.0)),
        rows(counts),
        rows(st.just(0.0) | scattered),
        rows(nearly_flat),
    )


@st.composite
def row_pairs(
    draw: DrawFn, vocab_size: int | None = None
) -> tuple[Tensor, Tensor]:  # two [V] float64
    """A target's and a draft's row: unrelated, equal, nearly equal or disjoint."""
    V = draw(st.integers(2, 7)) if vocab_size is None else vocab_size
    kind = draw(st.sampled_from(["unrelated", "equal", "near", "disjoint"]))
    first, second = draw(probability_rows(V)), draw(probability_rows(V))
    if kind == "equal":
        second = first.clone()
    if kind == "near":  # within rounding, or nearly so
        signs = torch.tensor(draw(st.lists(st.integers(-1, 1), min_size=V, max_size=V)))
        second = first * (1 + draw(st.sampled_from([1e-16, 1e-12, 1e-6])) * signs)
    if kind == "disjoint":
        side = torch.tensor(draw(st.lists(st.booleans(), min_size=V, max_size=V)))
        first, second = first * side, second * ~side
        assume(first.any() and second.any())
    return first / first.sum(), second / second.sum()


# ------------------------------------------------------------------- sampling chains

QUARTERS = st.integers(-24, 24).map(lambda n: n / 4)


def logit_rows(vocab_size: int) -> SearchStrategy[list[float]]:
    """Quarters, so that ties are exact ties and all else is well apart; some -inf."""
    logit = st.one_of(QUARTERS, QUARTERS, QUARTERS, st.just(-math.inf))
    row = st.lists(logit, min_size=vocab_size, max_size=vocab_size)
    return row.filter(lambda logits: max(logits) > -math.inf)


@st.composite
def samplings(draw: DrawFn, vocab_size: int) -> Sampling:
    """Any chain, each step often left out; some token is never an EOS."""
    eos = st.lists(st.integers(0, vocab_size + 2), max_size=min(2, vocab_size - 1))
    return Sampling(
        temperature=draw(st.sampled_from([0.0, 1.0, 1.0]) | st.floats(0.05, 20)),
        top_k=draw(st.none() | st.integers(1, vocab_size + 2)),
        top_p=draw(st.just(1.0) | st.floats(0.05, 0.999)),
        min_p=draw(st.just(0.0) | st.floats(0.01, 0.99)),
        repetition_penalty=draw(st.just(1.0) | st.floats(0.5, 3.0)),
        min_length=draw(st.integers(0, 9)),
        eos_ids=draw(eos),
    )


class Chain(NamedTuple):
    """R rows of logits, what to do with them, and all the tokens known."""

    logits: list[list[float]]  # [R, V]
    sampling: Sampling
    history: list[int]  # [n + R - 1]

    def before(self, row: int) -> list[int]:
        """What this row may look at."""
        return self.history[: len(self.history) - len(self.logits) + 1 + row]


@st.composite
def chains(draw: DrawFn) -> Chain:
    V, R = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    logits = draw(st.lists(logit_rows(V), min_size=R, max_size=R))
    history = draw(id_sequences(V, R, R + 4))
    return Chain(logits, draw(samplings(V)), history)

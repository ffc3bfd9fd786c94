"""Hypothesis strategies: tiny models, token ids, probability rows, splits.

Models are drawn as (config, seed), not as tensors: a failing example then prints as
two lines, and shrinks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import hypothesis.strategies as st
import torch
from hypothesis.strategies import DrawFn, SearchStrategy
from torch import Tensor

from minispec.attention import AttentionForm, fused_attention
from minispec.gpt2 import ACTIVATIONS, GPT, GPTConfig
from minispec.sampling import Sampling

SEEDS = st.integers(0, 2**32 - 1)
VOCABULARIES = st.integers(2, 7)

# --------------------------------------------------------------------------- models


@st.composite
def configs(draw: DrawFn, vocab_size: int | None = None) -> GPTConfig:
    """Tiny shapes, every activation, both flags, every sort of `n_inner`."""
    n_head = draw(st.integers(1, 3))
    return GPTConfig(
        n_layer=draw(st.integers(1, 3)),
        n_head=n_head,
        n_embd=n_head * draw(st.integers(1, 4)),
        vocab_size=draw(VOCABULARIES) if vocab_size is None else vocab_size,
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


# ------------------------------------------------------------------- ids and splits


def id_sequences(
    vocab_size: int, min_size: int = 1, max_size: int = 8
) -> SearchStrategy[list[int]]:
    return st.lists(
        st.integers(0, vocab_size - 1), min_size=min_size, max_size=max_size
    )


@st.composite
def splits(draw: DrawFn, total: int) -> list[int]:
    """Sizes of consecutive blocks, each at least 1, that make up `total`."""
    cuts = draw(st.sets(st.integers(1, total - 1))) if total > 1 else set()
    edges = [0, *sorted(cuts), total]
    return [end - start for start, end in zip(edges, edges[1:])]


def blocks(ids: Tensor, sizes: list[int]) -> list[Tensor]:
    """[B, T] cut into consecutive [B, size] blocks."""
    return list(ids.split(sizes, dim=1))


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
    def blocks(self) -> list[Tensor]:
        return blocks(self.ids, self.split)

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
    length = st.sampled_from([min_size, longest]) | st.integers(min_size, longest)
    n = draw(length)
    tokens = draw(id_sequences(config.vocab_size, n, n))
    return Case(config, draw(SEEDS), tokens, draw(splits(n)))


# ---------------------------------------------------------------- probability rows


def normalised(weights: list[float]) -> Tensor:  # -> [V] float64
    row = torch.tensor(weights, dtype=torch.float64)
    return row / row.sum()


@st.composite
def one_hot_rows(draw: DrawFn, vocab_size: int) -> Tensor:
    weights = [0.0] * vocab_size
    weights[draw(st.integers(0, vocab_size - 1))] = 1.0
    return normalised(weights)


def probability_rows(vocab_size: int) -> SearchStrategy[Tensor]:  # [V] float64
    """Rows that sum to 1: plain, with zeros, one-hot, nearly flat, with tiny masses."""

    def rows(weight: SearchStrategy[float]) -> SearchStrategy[Tensor]:
        columns = st.lists(weight, min_size=vocab_size, max_size=vocab_size)
        return columns.filter(any).map(normalised)

    plain = st.floats(0.05, 1.0)
    counts = st.integers(0, 3).map(float)  # zeros and exact ties
    nearly_flat = st.floats(-1e-9, 1e-9).map(lambda tilt: 1.0 + tilt)
    scattered = st.integers(-30, 0).map(lambda power: 10.0**power)
    return st.one_of(
        rows(plain),
        rows(counts),
        rows(st.just(0.0) | scattered),
        rows(nearly_flat),
        one_hot_rows(vocab_size),
    )


@st.composite
def nudged(draw: DrawFn, row: Tensor) -> Tensor:
    """A row within rounding, or nearly so, of the given one; its zeros stay zeros."""
    size = draw(st.sampled_from([1e-16, 1e-12, 1e-6]))
    signs = st.lists(
        st.sampled_from([-1, 0, 1]), min_size=len(row), max_size=len(row)
    )
    return normalised((row * (1 + size * torch.tensor(draw(signs)))).tolist())


@st.composite
def disjoint_rows(draw: DrawFn, vocab_size: int) -> tuple[Tensor, Tensor]:
    """Two rows with no token in common."""
    order = draw(st.permutations(range(vocab_size)))
    cut = draw(st.integers(1, vocab_size - 1))
    pair = []
    for support in (order[:cut], order[cut:]):
        row = torch.zeros(vocab_size, dtype=torch.float64)
        row[list(support)] = draw(probability_rows(len(support)))
        pair.append(row)
    return pair[0], pair[1]


@st.composite
def row_pairs(
    draw: DrawFn, vocab_size: int | None = None
) -> tuple[Tensor, Tensor]:  # two [V] float64
    """A target's and a draft's row: unrelated, equal, nearly equal or disjoint."""
    V = draw(VOCABULARIES) if vocab_size is None else vocab_size
    kind = draw(st.sampled_from(["unrelated", "equal", "near", "disjoint"]))
    if kind == "disjoint" and V > 1:
        return draw(disjoint_rows(V))
    first = draw(probability_rows(V))
    if kind == "equal":
        return first, first.clone()
    if kind == "near":
        return first, draw(nudged(first))
    return first, draw(probability_rows(V))


# ------------------------------------------------------------------- sampling chains


def logit_rows(vocab_size: int) -> SearchStrategy[list[float]]:
    """Quarters, so that ties are exact ties and all else is well apart; some -inf."""
    quarters = st.integers(-24, 24).map(lambda n: n / 4)
    logit = st.one_of(quarters, quarters, quarters, st.just(-math.inf))
    row = st.lists(logit, min_size=vocab_size, max_size=vocab_size)
    return row.filter(lambda logits: max(logits) > -math.inf)


def distinct_logits(vocab_size: int) -> SearchStrategy[list[float]]:
    quarters = st.integers(-24, 24).map(lambda n: n / 4)
    return st.lists(quarters, min_size=vocab_size, max_size=vocab_size, unique=True)


@st.composite
def samplings(draw: DrawFn, vocab_size: int) -> Sampling:
    """Any chain, each step often left out."""
    return Sampling(
        temperature=draw(st.sampled_from([0.0, 1.0, 1.0]) | st.floats(0.05, 20)),
        top_k=draw(st.none() | st.integers(1, vocab_size + 2)),
        top_p=draw(st.just(1.0) | st.floats(0.05, 0.999)),
        min_p=draw(st.just(0.0) | st.floats(0.01, 0.99)),
        repetition_penalty=draw(st.just(1.0) | st.floats(0.5, 3.0)),
        min_length=draw(st.integers(0, 9)),
        eos_ids=tuple(draw(st.lists(st.integers(-2, vocab_size + 2), max_size=2))),
    )


class Chain(NamedTuple):
    """R rows of logits, what to do with them, and all the tokens known."""

    logits: list[list[float]]  # [R, V]
    sampling: Sampling
    history: list[int]  # [n + R - 1]

    @property
    def n(self) -> int:
        return len(self.history) - (len(self.logits) - 1)

    def before(self, row: int) -> list[int]:
        """What this row may look at."""
        return self.history[: self.n + row]


@st.composite
def chains(draw: DrawFn) -> Chain:
    V, R = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    logits = draw(st.lists(logit_rows(V), min_size=R, max_size=R))
    history = draw(id_sequences(V, R, R + 4))
    return Chain(logits, draw(samplings(V)), history)


# ------------------------------------------------------- conditional rows, both models


class Tables(NamedTuple):
    """Two tiny language models: what each says next depends on all that came before."""

    pairs: list[tuple[Tensor, Tensor]]

    def _at(self, prefix: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        code = len(prefix) + sum(3**i * (1 + token) for i, token in enumerate(prefix))
        return self.pairs[code % len(self.pairs)]

    def target(self, prefix: tuple[int, ...]) -> Tensor:  # -> [V]
        return self._at(prefix)[0]

    def draft(self, prefix: tuple[int, ...]) -> Tensor:  # -> [V]
        return self._at(prefix)[1]


@st.composite
def tables(draw: DrawFn, vocab_size: int) -> Tables:
    pairs = st.lists(row_pairs(vocab_size), min_size=1, max_size=5)
    return Tables(draw(pairs))

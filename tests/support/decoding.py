"""What the tests of decoding share: tiny pairs, odd drafters, and checks of caches.

A row of probabilities is one uncached pass over one sequence, so no cache, block or row
index can go wrong in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import hypothesis.strategies as st
import torch
from hypothesis.strategies import DrawFn
from torch import Tensor

from minispec import GPT, Drafter, GPTConfig, ModelDrafter, NgramDrafter, Proposal
from minispec import Sampling, Seeded
from minispec.core.randomness import Randomness
from minispec.core.sampling import logits_to_probs
from minispec.model.kv_cache import KVCache

from support.checks import agree
from support.strategies import SEEDS, id_sequences, samplings, tiny_gpt

same = partial(torch.testing.assert_close, rtol=0, atol=1e-12)  # in float64

# --------------------------------------------------------------------------- models


def tiny(V: int = 4, seed: int = 0, n_positions: int = 24, n_layer: int = 1) -> GPT:
    """A float64 model of width 4, two heads."""
    return tiny_gpt(GPTConfig(n_layer, 2, 4, V, n_positions), seed)


@torch.no_grad()
def next_row(model: GPT, sampling: Sampling, prefix: Sequence[int]) -> Tensor:  # [V]
    """What `model` draws from after `prefix`: one sequence, no cache, one row."""
    ids = torch.tensor([list(prefix)])
    return logits_to_probs(model(ids)[0, -1:], sampling, ids[0])[0]


class Situation(NamedTuple):
    """A model, a text for it, and how much of that text its cache has seen."""

    model: GPT
    prefix: Tensor  # [n]
    seen: int  # 0..n-1
    sampling: Sampling


@st.composite
def situations(draw: DrawFn, n_positions: int = 12) -> Situation:
    V = draw(st.integers(2, 5))
    model = tiny(V, draw(SEEDS), n_positions, draw(st.integers(1, 2)))
    prefix = torch.tensor(draw(id_sequences(V, 1, n_positions)))
    seen = draw(st.integers(0, len(prefix) - 1))
    return Situation(model, prefix, seen, draw(samplings(V)))


# --------------------------------------------------------------------------- caches


@torch.no_grad()
def prefilled(model: GPT, tokens: Tensor) -> KVCache:
    """A cache that has seen `tokens` [S], with NaN in every other slot."""
    cache = GPT.new_cache(model)  # not one that a spy should count
    if len(tokens):
        model(tokens[None], cache)
    poison(cache)
    return cache


def poison(cache: KVCache) -> None:
    """NaN in every slot at and beyond `length`: anything that reads one shows."""
    for tensor in [*cache.keys, *cache.values]:
        tensor[:, :, cache.length :] = torch.nan


def held(cache: KVCache) -> Tensor:  # [2, L, B, H, S, D]
    """A copy of the keys and values that count."""
    both = [torch.stack(rows) for rows in (cache.keys, cache.values)]
    return torch.stack(both)[..., : cache.length, :]


def assert_holds(cache: KVCache, model: GPT, text: Sequence[int]) -> None:
    """The cache is a fresh prefill of as much of `text` as it says it holds."""
    broke = "The cache holds no more positions than the text has tokens."
    agree(min(cache.length, len(text)), cache.length, broke, text=list(text))
    fresh = prefilled(model, torch.tensor(text[: cache.length], dtype=torch.long))
    broke = "The cache does not hold what belongs to the text."
    agree(held(cache), held(fresh), broke, text=list(text), length=cache.length)


def spy_on_caches(monkeypatch: Any, *models: GPT) -> list[KVCache]:
    """Every cache that these models make from now on, in order, each poisoned."""
    made: list[KVCache] = []

    def spied(new_cache: Callable[..., KVCache], *args: Any) -> KVCache:
        made.append(new_cache(*args))
        poison(made[-1])
        return made[-1]

    for model in models:
        monkeypatch.setattr(model, "new_cache", partial(spied, model.new_cache))
    return made


def spy_on_feeding(monkeypatch: Any, model: GPT, part: str = "trunk") -> list[int]:
    """How many positions each pass of the model's trunk (or head) gets from now on."""
    fed: list[int] = []

    def spied(run: Callable[..., Tensor], new: Tensor, *rest: Any, **by: Any) -> Tensor:
        rows = new[..., 0].numel() // (len(new) if new.ndim == 3 else 1)
        fed.append(new.shape[-1] if part == "trunk" else rows)
        return run(new, *rest, **by)

    monkeypatch.setattr(model, part, partial(spied, getattr(model, part)))
    return fed


# --------------------------------------------------------------- chance, and drafters


class Scripted:
    """A `Randomness` told what to decide; past its script a seed decides.

    `rows` and `chances` are what it was asked about, in order.
    """

    def __init__(
        self, tokens: Sequence[int] = (), accepts: Sequence[bool] = (), seed: int = 0
    ) -> None:
        self.tokens, self.accepts = list(tokens), list(accepts)
        self.seeded = Seeded(seed)
        self.rows: list[Tensor] = []
        self.chances: list[float] = []

    def sample(self, probs: Tensor) -> int:
        self.rows.append(probs.clone())
        return self.tokens.pop(0) if self.tokens else self.seeded.sample(probs)

    def accept(self, chance: float) -> bool:
        broke = "accept takes a Python float: beside a tensor, u would be rounded."
        agree(isinstance(chance, Tensor), False, broke, chance=chance)
        self.chances.append(chance)
        return self.accepts.pop(0) if self.accepts else self.seeded.accept(chance)


class Fixed(Drafter):
    """Proposes the next tokens of a text it was given, certain of each."""

    def __init__(self, text: Sequence[int], V: int, at_most: int = 99) -> None:
        self.text, self.V, self.at_most = list(text), V, at_most
        self.calls: list[str | int] = []  # "begin", then the lengths rolled back to

    def begin(self, cache: KVCache) -> None:
        self.calls.append("begin")

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        n, K = len(prefix), min(gamma, self.at_most)
        tokens = torch.tensor(self.text[n : n + K], dtype=torch.long)
        return Proposal.certain(tokens, self.V)

    def rollback(self, length: int) -> None:
        self.calls.append(length)


class Stateless(Drafter):
    """A drafter that is one function of the text so far, drawing token by token."""

    def __init__(self, row_after: Callable[[list[int]], Tensor]) -> None:
        self.row_after = row_after

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        text = prefix.tolist()
        rows = [self.row_after(text)[None, :][:0]]
        for _ in range(gamma):
            rows.append(self.row_after(text)[None])
            text.append(randomness.sample(rows[-1][0]))
        return Proposal(torch.tensor(text)[len(prefix) :], torch.cat(rows))


DRAFTERS = ["model", "ngram", "short", "mute"]


def make_drafter(
    kind: str,
    V: int = 4,
    seed: int = 7,
    sampling: Sampling = Sampling(),
    context: int = 24,
) -> Any:
    """Two real ones, one that gives less than it is asked for, and a silent one."""
    if kind == "model":
        return ModelDrafter(tiny(V, seed + 1000, context), sampling)
    if kind == "ngram":
        return NgramDrafter(V, longest=2)
    return Fixed(list(range(V)) * 8, V, at_most=2 if kind == "short" else 0)

"""What the tests of decoding share: tiny pairs, odd drafters, and checks of caches.

Nothing here is graded. The models come from `strategies.py`; a row of probabilities is
one uncached pass over one sequence, so no cache, block or row index can go wrong in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import hypothesis.strategies as st
import torch
from hypothesis.strategies import DrawFn, SearchStrategy
from torch import Tensor

from minispec.draft import Proposal
from minispec.gpt2 import GPT, GPTConfig
from minispec.kv_cache import KVCache
from minispec.randomness import Randomness, Seeded
from minispec.sampling import Sampling, logits_to_probs

from strategies import SEEDS, tiny_gpt

same = partial(torch.testing.assert_close, rtol=0, atol=1e-12)  # in float64

# --------------------------------------------------------------------------- models


def tiny(V: int, seed: int, n_positions: int = 24, n_layer: int = 1) -> GPT:
    """A float64 model of width 4, two heads."""
    return tiny_gpt(GPTConfig(n_layer, 2, 4, V, n_positions), seed)


@torch.no_grad()
def tied_gpt(V: int, seed: int, n_positions: int = 32) -> GPT:
    """A model whose highest logits are often exactly equal.

    The vectors of tokens 2i and 2i + 1 are the same, and each is two weights of +-1
    among zeros: a logit is then one sum of two numbers, rounded once, whatever the
    order in which a kernel adds.
    """
    generator = torch.Generator().manual_seed(seed)
    model = tiny(V, seed, n_positions)
    vectors = torch.zeros_like(model.wte.weight)
    for row in vectors[::2]:
        for column in torch.randperm(len(row), generator=generator)[:2]:
            row[column] = 1 - 2 * int(torch.randint(0, 2, (), generator=generator))
    vectors[1::2] = vectors[: V - 1 : 2]
    model.wte.weight.copy_(vectors)
    return model


@torch.no_grad()
def next_row(model: GPT, sampling: Sampling, prefix: Sequence[int]) -> Tensor:  # [V]
    """What `model` draws from after `prefix`: one sequence, no cache, one row."""
    ids = torch.tensor([list(prefix)])
    return logits_to_probs(model(ids)[0, -1:], sampling, ids[0])[0]


def samplings(V: int) -> SearchStrategy[Sampling]:
    """Every knob alone or with others; half of all draws change nothing."""

    def knob(neutral: Any, *others: Any) -> SearchStrategy[Any]:
        return st.just(neutral) | st.sampled_from(others)

    return st.builds(
        Sampling,
        temperature=knob(1.0, 0.0, 0.3, 1.7),
        top_k=knob(None, 1, 2),
        top_p=knob(1.0, 0.5, 0.9),
        min_p=knob(0.0, 0.2, 1.0),
        repetition_penalty=knob(1.0, 0.5, 2.0),
        min_length=knob(0, 3, 6),
        eos_ids=knob((), (0,)) if V > 1 else st.just(()),
    )


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
    ids = st.lists(st.integers(0, V - 1), min_size=1, max_size=n_positions)
    prefix = torch.tensor(draw(ids))
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
    """NaN in every slot at and beyond `length`: whoever reads one is found out."""
    for tensor in [*cache.keys, *cache.values]:
        tensor[:, :, cache.length :] = torch.nan


def held(cache: KVCache) -> Tensor:  # [2, L, B, H, S, D]
    both = [torch.stack(rows) for rows in (cache.keys, cache.values)]
    return torch.stack(both)[..., : cache.length, :]


def assert_holds(cache: KVCache, model: GPT, text: Sequence[int]) -> None:
    """The cache is a fresh prefill of as much of `text` as it says it holds."""
    assert cache.length <= len(text), f"{cache.length} of {len(text)} positions"
    fresh = prefilled(model, torch.tensor(text[: cache.length], dtype=torch.long))
    assert cache.length == fresh.length
    same(held(cache), held(fresh))


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
    """How many positions each pass of the model's trunk is given, from now on.

    Or of its head.
    """
    fed: list[int] = []

    def spied(run: Callable[..., Tensor], new: Tensor, *cache: Any) -> Tensor:
        fed.append(new.shape[1])
        return run(new, *cache)

    monkeypatch.setattr(model, part, partial(spied, getattr(model, part)))
    return fed


# --------------------------------------------------------------- chance, and drafters


class Scripted:
    """A `Randomness` told what to decide; past its script a seed decides.

    `rows` and `ratios` are what it was asked about.
    """

    def __init__(
        self, tokens: Sequence[int] = (), counts: Sequence[int] = (), seed: int = 0
    ) -> None:
        self.tokens, self.counts = list(tokens), list(counts)
        self.seeded = Seeded(seed)
        self.rows: list[Tensor] = []
        self.ratios: list[Tensor] = []

    def sample(self, probs: Tensor) -> int:
        self.rows.append(probs.clone())
        return self.tokens.pop(0) if self.tokens else self.seeded.sample(probs)

    def leading_accepts(self, ratios: Tensor) -> int:
        self.ratios.append(ratios.clone())
        if self.counts:
            return min(self.counts.pop(0), len(ratios))
        return self.seeded.leading_accepts(ratios)


class Fixed:
    """Proposes the next tokens of a text it was given, certain of each."""

    def __init__(self, text: Sequence[int], V: int, at_most: int = 99) -> None:
        self.text, self.V, self.at_most = list(text), V, at_most
        self.rollbacks: list[int] = []

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        n, K = len(prefix), min(gamma, self.at_most)
        tokens = torch.tensor(self.text[n : n + K], dtype=torch.long)
        return Proposal.certain(tokens, self.V)

    def rollback(self, length: int) -> None:
        self.rollbacks.append(length)


class Stateless:
    """A drafter that is one function of the text so far, drawing token by token."""

    def __init__(self, row_after: Callable[[list[int]], Tensor]) -> None:
        self.row_after = row_after

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        text, rows = prefix.tolist(), []
        for _ in range(gamma):
            rows.append(self.row_after(text))
            text.append(randomness.sample(rows[-1]))
        if not rows:
            return Proposal(prefix[:0], torch.zeros(0, len(self.row_after(text))))
        return Proposal(torch.tensor(text[len(prefix) :]), torch.stack(rows))

    def rollback(self, length: int) -> None:
        pass

"""Block diffusion: one pass for all drafts, each row drawn from as it is declared."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from torch import Tensor

from minispec import Request, Sampling, Seeded, generate, reject
from minispec.core.randomness import Randomness
from minispec.core.sampling import logits_to_probs
from minispec.core.speculative import speculative_round
from minispec.core.text import Text
from minispec.drafters.block_diffusion import BlockDiffusion
from minispec.files.head import load_head, save_head
from minispec.exactness import output_distribution
from minispec.model.gpt2 import GPT

from support.checks import agree
from support.decoding import Scripted, poison, tiny
from support.script_loader import load_script
from support.strategies import SEEDS, id_sequences, samplings

V, LONGEST = 4, 3


class Remembering(Scripted):
    """And `given` is what it drew."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed)
        self.given: list[int] = []

    def sample(self, probs: Tensor) -> int:
        self.given.append(super().sample(probs))
        return self.given[-1]


def a_head(target: GPT, n_layer: int = 2, seed: int = 5) -> BlockDiffusion:
    """A float64 head whose weights all matter."""
    head = BlockDiffusion(target.config, 6, 2, n_layer, LONGEST)
    noise = torch.Generator().manual_seed(seed)
    for parameter in head.double().requires_grad_(False).parameters():
        parameter.normal_(0.2, 0.8, generator=noise)
    return head


@torch.no_grad()
def logits_at_once(
    target: GPT, head: BlockDiffusion, prefix: list[int], K: int
) -> Tensor:  # [K, V]
    """The whole of it in one formula, for one text, without a cache."""
    n, ids = len(prefix), torch.tensor([prefix[:-1]])
    cache = target.new_cache()
    for layer in range(target.config.n_layer):
        cache.tap(layer)
    target.trunk(ids, cache)
    taps = [cache.taps[layer][0, : n - 1] for layer in head.layers]
    context = head.fuse(torch.cat([F.layer_norm(t, (4,)) for t in taps], -1)[None])
    context = context + head.c_in(target.wpe.weight[None, : n - 1])
    x = torch.cat([target.wte.weight[prefix[-1:]], head.masks.weight[:K]])
    x = head.c_in((x + target.wpe.weight[n - 1 : n + K])[None])
    for block in head.h:
        everything = block.ln_1(torch.cat([context, x], dim=1))
        query, key, value = (
            part.unflatten(-1, (2, 3)).transpose(1, 2)
            for part in block.attn.c_attn(everything).chunk(3, dim=-1)
        )
        scores = query[:, :, n - 1 :] @ key.transpose(-2, -1) / 3**0.5
        mixed = scores.softmax(-1) @ value
        x = x + block.attn.c_proj(mixed.transpose(1, 2).flatten(2))
        x = x + block.mlp(block.ln_2(x))
    return target.head(target.ln_f(head.c_out(x)))[0, 1:]


@settings(max_examples=60)
@given(
    prompt=id_sequences(V, 1, 5),
    sampling=samplings(V),
    gamma=st.integers(1, 5),
    n_layer=st.integers(1, 3),
    seed=SEEDS,
)
def test_every_row_of_every_round(
    prompt: list[int], sampling: Sampling, gamma: int, n_layer: int, seed: int
) -> None:
    """Declared and drawn from: the block's row, processed after the drafts so far.
    What was rolled back is NaN, in the target's cache and in the head's."""
    target = tiny(V, seed, n_positions=16, n_layer=n_layer)
    head, chance = a_head(target), Remembering(seed=seed)
    drafter: Any = head.drafter(target, sampling)
    text = Text(Request(torch.tensor(prompt), 12, sampling, gamma), target)
    drafter.begin(text.cache)
    while text.finish_reason is None:
        for cache in (text.cache, drafter.context):
            poison(cache)
            for tap in cache.taps.values():
                tap[:, cache.length :] = torch.nan
        prefix, asked = text.prefix.tolist(), text.n_drafts(gamma)
        ready = text.cache.length == len(prefix) - 1 > 0
        chance.rows.clear()
        chance.given.clear()
        done = speculative_round(target, drafter, text, asked, chance)
        K = min(asked, LONGEST) if ready else 0
        agree(len(done.tokens), K, "The number of drafts.", asked=asked, prefix=prefix)
        if not K:
            continue
        assert done.rows is not None
        logits = logits_at_once(target, head, prefix, K)
        history = torch.tensor([*prefix, *done.tokens[:-1]])
        expected = logits_to_probs(logits, sampling, history)
        what: Any = {"prefix": prefix, "drafts": done.tokens}
        agree(done.rows.draft_probs, expected, "A row is wrong.", **what)
        drawn = [int(i) for i in done.tokens]
        agree(drawn, chance.given[:K], "Other tokens than those drawn.", **what)
        drawn_from = torch.stack(chance.rows[:K])
        agree(drawn_from, expected, "Drawn from another row than declared.", **what)


def test_one_pass_for_all_drafts_and_one_reading_of_the_context() -> None:
    """However many drafts are rejected."""
    target, blocks, read = tiny(V, 1, n_layer=2), list[int](), list[int]()
    head = a_head(target)
    head.c_out.register_forward_hook(lambda _, x, y: blocks.append(y.shape[1]))
    head.fuse.register_forward_hook(lambda _, x, y: read.append(y.shape[1]))
    drafter: Any = head.drafter(target)
    done = generate(target, drafter, Request(torch.tensor([1, 2]), 12), Seeded(0))
    drafts = [len(one.tokens) for one in done.rounds if one.tokens]
    assert done.accepted < done.drafted and max(drafts) == LONGEST
    agree(blocks, [K + 1 for K in drafts], "Rows of each pass: an anchor, K masks.")
    agree(sum(read), drafter.context.length, "Positions of the context read.")
    drafter.rollback(3)
    agree(drafter.context.length, 3, "The context after a rollback to 3.")


def test_a_draft_cannot_see_the_drafts_before_it() -> None:
    """Whatever is drawn, the rows stay: they factorise over positions."""
    target = tiny(V, 1, n_layer=2)
    drafter, prefix = a_head(target).drafter(target), torch.tensor([1, 2, 0])
    seen = []
    for first in range(V):
        cache = target.new_cache()
        drafter.begin(cache)
        target(prefix[None, :2], cache)
        seen.append(drafter.propose(prefix, 3, Scripted([first])).draft_probs)
    for rows in seen[1:]:
        agree(rows, seen[0], "A row depends on what was drawn before it.")


def test_a_block_of_the_training_is_the_block_of_a_draft() -> None:
    """Many blocks in one pass: none sees another, nor the text from its anchor on."""
    recipes, target = load_script("head_recipes"), tiny(V, 1, n_layer=2)
    head = a_head(target)
    ids = torch.tensor([[0, 1, 3, 2, 2, 3, 1, 0, 2], [3, 3, 0, 1, 2, 2, 0, 1, 1]])
    anchors = torch.tensor([[1, 4, 5], [3, 2, 5]])
    cache = target.new_cache(9, 2)
    for layer in head.layers:
        cache.tap(layer)
    target.trunk(ids, cache)
    batch = recipes.Batch(target, ids, cache.taps)
    logits = recipes.block_logits(head, batch, anchors)
    for b, row in enumerate(anchors.tolist()):
        for a, anchor in enumerate(row):
            text = ids[b, : anchor + 1].tolist()
            expected = logits_at_once(target, head, text, LONGEST)
            agree(logits[b, a], expected, "Not a draft's block.", text=text)


A, B, C, D = range(4)
AFTER = {A: B, C: D}  # the target says "A B" or "C D", each half the time


def two_tokens(row_after: Any, chance: Randomness) -> tuple[int, ...]:
    """One round of two drafts: n_accepted, then the two first tokens of the text."""
    tokens, rows = [], []
    for i in range(2):
        rows.append(row_after(i, tokens))
        tokens.append(chance.sample(rows[-1]))
    certain = F.one_hot(torch.tensor([AFTER.get(tokens[0], A), A]), 4).double()
    target = torch.stack([half(A, C), *certain])
    verdict = reject(torch.tensor(tokens), torch.stack(rows), target, chance)
    text = [*tokens[: verdict.n_accepted], verdict.next_token][:2]
    return verdict.n_accepted, *text


def half(one: int, other: int) -> Tensor:
    return F.one_hot(torch.tensor([one, other]), 4).double().mean(dim=0)


def test_what_factorising_costs_exactly() -> None:
    """The best rows that do not look at draft 1 against rows that do."""

    def apart(i: int, before: list[int]) -> Tensor:
        return half(A, C) if i == 0 else half(B, D)

    def in_turn(i: int, before: list[int]) -> Tensor:
        return half(A, C) if i == 0 else half(AFTER[before[0]], AFTER[before[0]])

    for row_after, accepted in ((apart, {1: 0.5, 2: 0.5}), (in_turn, {2: 1.0})):
        outcomes = output_distribution(lambda chance: two_tokens(row_after, chance))
        n, texts = dict[int, float](), dict[tuple[int, ...], float]()
        for (n_accepted, *text), mass in outcomes.items():
            n[n_accepted] = n.get(n_accepted, 0) + float(mass)
            texts[tuple(text)] = texts.get(tuple(text), 0) + float(mass)
        assert n == pytest.approx(accepted, abs=1e-12)
        assert texts == pytest.approx({(A, B): 0.5, (C, D): 0.5}, abs=1e-12)


def test_a_saved_head_drafts_as_before(tmp_path: Any) -> None:
    target = tiny(V, 1, n_layer=3)
    head = a_head(target).half().double()  # as the file rounds
    save_head(head, tmp_path, target)
    loaded = load_head(tmp_path, target, ("block-diffusion",))
    request = Request(torch.tensor([1, 2]), 12)
    texts = [
        generate(target, one.drafter(target), request, Seeded(1))
        for one in (head, loaded)
    ]
    assert loaded.sizes == head.sizes and texts[0] == texts[1]


def test_the_layers_it_reads() -> None:
    """A low, a middle and the last; a small target has fewer."""
    configs = [tiny(n_layer=n).config for n in (12, 3, 1)]
    found = [BlockDiffusion(config, 4, 1, 1, 1).layers for config in configs]
    assert found == [(2, 6, 11), (0, 1, 2), (0,)]

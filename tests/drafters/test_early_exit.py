"""Early exit: the lower layers draft, and nothing they compute is computed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from minispec import Drafter, NgramDrafter, Request, Round, Sampling, Seeded, generate
from minispec import generate_alone
from minispec.core.randomness import Randomness
from minispec.core.sampling import logits_to_probs
from minispec.core.speculative import speculative_round
from minispec.core.text import Text
from minispec.drafters.early_exit import EarlyExit, EarlyExitDrafter
from minispec.files.head import load_head, save_head
from minispec.files.pair import SHIPPED, load_model
from minispec.model.gpt2 import GPT, Block

from support.checks import agree
from support.decoding import Scripted, held, next_row, poison, tiny
from support.strategies import SEEDS, id_sequences, samplings

V, PROMPT = 4, torch.tensor([2, 1, 2])
SOME = st.integers(0, 3)
exercise = pytest.mark.exercise16


def an_exit(target: GPT, n_lower: int, seed: int = 5) -> EarlyExit:
    """A float64 exit whose weights all matter."""
    head, noise = EarlyExit(target.config, n_lower, 3), torch.Generator()
    noise.manual_seed(seed)
    for parameter in head.double().requires_grad_(False).parameters():
        parameter.normal_(0.2, 0.8, generator=noise)
    return head


@torch.no_grad()
def exit_row(
    target: GPT, head: EarlyExit, sampling: Sampling, prefix: list[int]
) -> Tensor:  # [V]
    """What the exit says after `prefix`, by a cache-free pass of whole sequences."""
    ids = torch.tensor([prefix])
    x = target.wte(ids) + target.wpe.weight[: len(prefix)]
    for block in target.h[: head.n_lower]:
        x = block(x, None, None)
    logits = target.head(target.ln_f(head(x)))[0, -1:]
    return logits_to_probs(logits, sampling, ids[0])[0]


def rounds(
    target: GPT, drafter: Drafter, request: Request, chance: Randomness
) -> Iterator[tuple[list[int], Round]]:
    """The rounds of a decode, each with the prefix it began with. What was rolled back
    is NaN: keys, values and taps."""
    text = Text(request, target)
    drafter.begin(text.cache)
    while text.finish_reason is None:
        poison(text.cache)
        for tap in text.cache.taps.values():
            tap[:, text.cache.length :] = torch.nan
        prefix, gamma = text.prefix.tolist(), text.n_drafts(request.gamma)
        yield prefix, speculative_round(target, drafter, text, gamma, chance)


# ------------------------------------------------------------- running ahead, by hand


@torch.no_grad()
def after_layers(target: GPT, ids: Tensor, n: int) -> Tensor:  # [B, T] -> [B, T, E]
    """The stream after the first n layers, by one pass of everything, uncached."""
    x = target.wte(ids) + target.wpe.weight[: ids.shape[1]]
    for block in target.h[:n]:
        x = block(x, None, None)
    return x


@exercise
@settings(max_examples=40)
@given(st.integers(1, 3), st.tuples(SOME, SOME, st.integers(1, 3)), SEEDS)
def test_the_upper_layers_catch_up_with_what_the_lower_ones_read(
    n_lower: int, sizes: tuple[int, int, int], seed: int
) -> None:
    """Some tokens are in the cache, the lower layers run ahead over more, and a pass
    over these and the last ones gives what a whole pass gives."""
    S, n_ahead, _ = sizes
    plain = tiny(V, seed, n_layer=4)
    staged = EarlyExitDrafter(an_exit(plain, n_lower), plain).target
    noise = torch.Generator().manual_seed(seed)
    ids = torch.randint(V, (2, sum(sizes)), generator=noise)
    cache = GPT.new_cache(plain, batch=2)
    cache.tap(n_lower - 1)
    what: Any = {"lower layers": n_lower, "in the cache": S, "read ahead": n_ahead}
    what |= {"tokens": ids}
    with torch.no_grad():
        if S:
            plain(ids[:, :S], cache)
        ahead, lower = cache.view(), after_layers(plain, ids, n_lower)
        if n_ahead:
            early = staged.run_ahead(ids[:, S : S + n_ahead], ahead)
            broke = "run_ahead does not return the lower layers' output for its tokens."
            agree(early, lower[:, S : S + n_ahead], broke, **what)
        lengths = ahead.length, cache.length
        broke = "run_ahead moves the length of the cache it is given, by its tokens."
        agree(lengths, (S + n_ahead, S), broke, **what)
        found = staged.catch_up(ids[:, S:], cache, ahead)
        expected = plain.ln_f(after_layers(plain, ids, 4))[:, S:]
    broke = "Not the hidden states of a whole pass, after ln_f, for all the tokens fed."
    agree(found, expected, broke, **what)
    agree(cache.length, sum(sizes), "The cache holds all that was fed.", **what)
    fresh = GPT.new_cache(plain, batch=2)
    with torch.no_grad():
        plain(ids, fresh)
    broke = "The cache does not hold, in each layer, what a whole pass leaves there."
    agree(held(cache), held(fresh), broke, **what)


# -------------------------------------------------------------------- in real decodes


@exercise
@settings(max_examples=40)
@given(
    n_lower=st.integers(1, 3),
    prompt=id_sequences(V, 1, 5),
    sampling=samplings(V),
    gamma=st.integers(1, 4),
    seed=SEEDS,
)
def test_rows_are_those_of_a_pass_without_a_cache(
    n_lower: int, prompt: list[int], sampling: Sampling, gamma: int, seed: int
) -> None:
    """The target's and the exit's, in every round, whatever was rejected before."""
    plain = tiny(V, seed, n_positions=16, n_layer=4)
    head = an_exit(plain, n_lower)
    drafter = EarlyExitDrafter(head, plain, sampling)
    request = Request(torch.tensor(prompt), 12, sampling, gamma)
    for prefix, done in rounds(drafter.target, drafter, request, Seeded(seed)):
        texts = [[*prefix, *done.tokens[:i]] for i in range(len(done.tokens) + 1)]
        what: Any = {"prefix": prefix, "drafts": done.tokens, "exit after": n_lower}
        assert done.rows is not None
        expected = torch.stack([next_row(plain, sampling, one) for one in texts])
        agree(done.rows.target_probs, expected, "A row of the target is wrong.", **what)
        for i, text in enumerate(texts[:-1]):
            row = exit_row(plain, head, sampling, text)
            agree(done.rows.draft_probs[i], row, "A draft's row is wrong.", i=i, **what)


def block_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(layer, position) for everything that goes through a block from now on."""
    seen: list[tuple[int, int]] = []
    run = Block.forward

    def spied(self: Block, x: Tensor, cache: Any, mask: Any) -> Tensor:
        layer, first = self.attn.layer, cache.length
        seen.extend((layer, first + i) for i in range(x.shape[1]))
        return run(self, x, cache, mask)

    monkeypatch.setattr(Block, "forward", spied)
    return seen


@exercise
@pytest.mark.parametrize("n_lower", [1, 2, 3])
@pytest.mark.parametrize("accepts", [[True] * 99, [False] * 99, [True, False] * 50])
def test_each_position_passes_each_block_once(
    monkeypatch: pytest.MonkeyPatch, accepts: list[bool], n_lower: int
) -> None:
    """Drafts that were rejected pass again, as another token."""
    target, K = tiny(V, 3, n_positions=32, n_layer=4), 3
    drafter = EarlyExitDrafter(an_exit(target, n_lower), target)
    seen = block_calls(monkeypatch)
    request = Request(PROMPT, 17, gamma=K)
    first = 0  # position that no block has seen or whose token was rejected
    for prefix, done in rounds(drafter.target, drafter, request, Scripted([], accepts)):
        n_fed = len(prefix) + len(done.tokens)
        once = Counter((layer, at) for layer in range(4) for at in range(first, n_fed))
        more, less = Counter(seen) - once, once - Counter(seen)
        what: Any = {"drafts": done.tokens, "lower layers": n_lower, "tokens": n_fed}
        broke = "Some (layer, position) were computed again."
        agree(sorted(more), [], broke, **what)
        agree(sorted(less), [], "Some (layer, position) were left out.", **what)
        first = len(prefix) + len(done.committed) - 1
        seen.clear()


@exercise
def test_a_draft_costs_the_lower_layers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    target = tiny(V, 3, n_layer=4)
    drafter, seen = EarlyExitDrafter(an_exit(target, 2), target), []
    drafter.begin(target.new_cache())
    seen = block_calls(monkeypatch)
    drafter.propose(PROMPT, 3, Seeded(0))
    counts = dict(Counter(layer for layer, _ in seen))
    broke = "The prompt of 3 and two drafts pass the two lower layers, and no other."
    agree(counts, {0: 5, 1: 5}, broke)


@pytest.mark.parametrize("n_lower", [1, 2])
def test_with_the_plain_target_the_text_is_the_same(n_lower: int) -> None:
    """It only costs more: the lower layers then work twice."""
    plain = tiny(V, 1, n_positions=40, n_layer=3)
    drafter = EarlyExitDrafter(an_exit(plain, n_lower), plain)
    request = Request(PROMPT, 30)
    texts = [
        generate(target, drafter, request, Seeded(2)).tokens
        for target in (plain, drafter.target)
    ]
    assert texts[0] == texts[1]


def test_without_drafts_the_staged_target_is_the_plain_one() -> None:
    """Alone, with another drafter, after drafts that nobody verified, and after some
    that were."""
    plain = tiny(V, 1, n_positions=40, n_layer=3)
    drafter = EarlyExitDrafter(an_exit(plain, 1), plain)
    staged, request, cache = drafter.target, Request(PROMPT, 30), plain.new_cache()
    drafter.begin(cache)
    drafter.propose(PROMPT, 3, Seeded(0))  # and then the decode was interrupted
    alone = [generate_alone(one, request, Seeded(4)).tokens for one in (plain, staged)]
    assert alone[0] == alone[1]
    ngram = NgramDrafter(V)
    both = [generate(one, ngram, request, Seeded(4)).tokens for one in (plain, staged)]
    assert both[0] == both[1]
    ids = torch.cat([PROMPT, drafter.propose(PROMPT, 2, Seeded(0)).tokens])[None]
    with torch.no_grad():
        agree(staged(ids, cache), plain(ids), "Logits of the verification.", ids=ids)
        cache.truncate(2)
        agree(staged(ids[:, 2:], cache), plain(ids)[:, 2:], "A pass without drafts.")


def test_untrained_it_is_the_bare_head() -> None:
    """The adapter starts as nothing: the hidden state goes into ln_f as it is."""
    target = tiny(V, 1, n_layer=3)
    head = EarlyExit(target.config, 2, 8).initialize(torch.Generator()).double()
    x = torch.randn(1, 5, 4, dtype=torch.float64, generator=torch.Generator())
    assert head(x).equal(x) and head.layers == (1,)


def test_it_has_no_weights_of_its_own() -> None:
    """What later converts the target in place converts the staged one with it."""
    target = tiny(V, 1, n_layer=3)
    staged = EarlyExitDrafter(an_exit(target, 2), target).target
    assert staged.h is target.h and staged.n_parameters == target.n_parameters
    assert staged.head(torch.ones(1, 1, 4).double()).shape == (1, 1, V)


def test_a_saved_exit_drafts_as_before(tmp_path: Any) -> None:
    target = tiny(V, 1, n_layer=3)
    head = an_exit(target, 2).half().double()  # as the file rounds
    save_head(head, tmp_path, target)
    loaded = load_head(tmp_path, target, ("early-exit",))
    texts = [
        generate(drafter.target, drafter, Request(PROMPT, 12), Seeded(1))
        for drafter in (EarlyExitDrafter(one, target) for one in (head, loaded))
    ]
    assert loaded.sizes == {"n_lower": 2, "n_inner": 3} and texts[0] == texts[1]


@pytest.mark.parametrize("n_lower", [0, 3, 7])
def test_an_exit_lies_between_layers(n_lower: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1 and at most 2, got {n_lower}"):
        EarlyExit(tiny(V, n_layer=3).config, n_lower, 4)


@pytest.mark.parametrize("temperature", [0, 1])
def test_the_shipped_exit_drafts_well(temperature: float) -> None:
    """About six of ten are accepted; of the bare head's, four or five."""
    target, tokenizer = load_model(SHIPPED / "target")
    head = load_head(SHIPPED / "early-exit", target, ("early-exit",))
    prompt, sampling = torch.tensor(tokenizer.encode("ROMEO:\n")), Sampling(temperature)
    drafter: Any = head.drafter(target, sampling)
    request = Request(prompt, 120, sampling, 3)
    done = generate(drafter.target, drafter, request, Seeded(0))
    assert done.acceptance_rate is not None and 0.45 < done.acceptance_rate < 0.95

"""The pair in weights/shakespeare: what it is, and that decoding with it is exact.

Tiny models are proved by enumeration (test_laws.py). This is the same claim on real
ones, as far as sampling can tell: a G test of the first two tokens' law, which must be
able to see a sampler that is wrong, too.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from minispec.draft import ModelDrafter
from minispec.drafters.ngram import NgramDrafter
from minispec.exactness import Law
from minispec.exactness.statistics import g_test, power
from minispec.gpt2 import GPT
from minispec.pair import SHIPPED, Pair, load_pair
from minispec.randomness import Seeded
from minispec.sampling import Sampling

PROMPT = "ROMEO:\n"
TOP_K = 12  # so that the law has 144 outcomes, not a million
N_DRAWS = 5000
FALSE_ALARM, POWER = 1e-4, 0.99


@pytest.fixture(scope="module")
def pair() -> Pair:
    return load_pair(SHIPPED / "target", SHIPPED / "draft")


@pytest.fixture(scope="module")
def prompt(pair: Pair) -> Tensor:
    return torch.tensor(pair.tokenizer.encode(PROMPT))


def test_every_file_is_the_one_the_readme_describes() -> None:
    described = (SHIPPED.parent / "README.md").read_text(encoding="utf-8")
    files = [path for path in SHIPPED.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 50e6
    for path in files:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        name = path.relative_to(SHIPPED).as_posix()
        line = rf"`{re.escape(name)}`.*`{digest}`"
        assert re.search(line, described), f"{name} is now {digest}"


def test_both_speak_the_same_vocabulary(pair: Pair) -> None:
    assert pair.draft is not None
    sizes = {m.config.vocab_size for m in (pair.target, pair.draft)}
    assert sizes == {pair.tokenizer.vocab_size} == {1024}
    assert pair.target.config.n_positions == pair.draft.config.n_positions == 512


@pytest.mark.parametrize("gamma", [1, 2, 3, 4, 5, 6, 7, 8])
def test_greedy_text_is_the_targets_own(
    impl: Any, pair: Pair, prompt: Tensor, gamma: int
) -> None:
    """In float32, as shipped: on this prompt no two logits are too close to call."""
    greedy = Sampling(temperature=0)
    alone = impl.autoregressive.generate(pair.target, prompt, 64, Seeded(0), greedy)
    for drafter in (ModelDrafter(pair.draft, greedy), NgramDrafter(1024)):
        fast = impl.speculative.generate(
            pair.target, drafter, prompt, gamma, 64, Seeded(gamma), greedy
        )
        assert fast.tokens == alone.tokens
        assert fast.target_forwards < alone.target_forwards


def two_token_law(target: GPT, prompt: Tensor, sampling: Sampling, impl: Any) -> Law:
    """P(first, second) after the prompt, without decoding anything."""
    process = impl.sampling.logits_to_probs
    law: Law = {}
    with torch.inference_mode():
        first = process(target(prompt[None])[0, -1:], sampling, prompt)[0].double()
        for token in first.nonzero()[:, 0]:
            text = torch.cat([prompt, token[None]])
            second = process(target(text[None])[0, -1:], sampling, text)[0].double()
            for other in second.nonzero()[:, 0]:
                law[int(token), int(other)] = float(first[token] * second[other])
    return law


def first_two_tokens(impl: Any, pair: Pair, prompt: Tensor) -> Counter[tuple[int, ...]]:
    """N_DRAWS decodes of three tokens with gamma 2, so every kind of round occurs."""
    sampling = Sampling(top_k=TOP_K)
    drafter = ModelDrafter(pair.draft, sampling)
    decode: Callable[[int], Any] = lambda seed: impl.speculative.generate(  # noqa: E731
        pair.target, drafter, prompt, 2, 3, Seeded(seed), sampling
    )
    return Counter(decode(seed).tokens[:2] for seed in range(N_DRAWS))


def test_the_first_two_tokens_have_the_targets_law(
    impl: Any, pair: Pair, prompt: Tensor
) -> None:
    law = two_token_law(pair.target, prompt, Sampling(top_k=TOP_K), impl)
    counts = first_two_tokens(impl, pair, prompt)
    assert g_test(counts, law).p_value > FALSE_ALARM


def test_so_many_draws_find_a_shift_of_ten_percent(
    impl: Any, pair: Pair, prompt: Tensor
) -> None:
    """10 % of the mass moved to the likeliest outcome, as a wrong sampler might.

    With 144 outcomes this test can see no less: a shift of 2 % would need some 50,000
    draws. Smaller deviations are what enumeration is for.
    """
    law = two_token_law(pair.target, prompt, Sampling(top_k=TOP_K), impl)
    likeliest = max(law, key=lambda outcome: law[outcome])
    rest = 1 - law[likeliest]
    shifted = {outcome: prob * (1 - 0.1 / rest) for outcome, prob in law.items()}
    shifted[likeliest] = law[likeliest] + 0.1
    assert power(law, shifted, N_DRAWS, FALSE_ALARM) > POWER


def test_the_g_test_rejects_a_wrong_residual(
    impl: Any, pair: Pair, prompt: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a refusal, draw from the target's row as if nothing had been refused."""
    rejection = impl.rejection
    monkeypatch.setattr(rejection, "residual", lambda target_row, draft_row: target_row)
    law = two_token_law(pair.target, prompt, Sampling(top_k=TOP_K), impl)
    counts = first_two_tokens(impl, pair, prompt)
    assert g_test(counts, law).p_value < FALSE_ALARM

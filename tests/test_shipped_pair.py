"""The pair in weights/shakespeare: what it is, and that decoding with it is exact.

Tiny models are proved by enumeration (test_laws.py). This is the same claim on real
ones, as far as sampling can tell: a G test of the first two tokens' law, which must be
able to see a sampler that is wrong, too.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
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
TOP_K = 3  # so that the law has 9 outcomes, not a million
FALSE_ALARM, POWER = 1e-3, 0.95
FEW, MANY = 3_000, 18_000  # draws; the many take minutes
WRONG = 300  # are plenty to find a wrong residual
each_number = pytest.mark.parametrize(
    "n_draws", [FEW, pytest.param(MANY, marks=pytest.mark.slow)]
)


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


def first_two_tokens(
    impl: Any, pair: Pair, prompt: Tensor, n_draws: int
) -> Counter[tuple[int, ...]]:
    """Decodes of three tokens with gamma 2, so that every kind of round occurs."""
    sampling = Sampling(top_k=TOP_K)
    drafter = ModelDrafter(pair.draft, sampling)

    def decode(seed: int) -> tuple[int, ...]:
        chance, target = Seeded(seed), pair.target
        return impl.speculative.generate(
            target, drafter, prompt, 2, 3, chance, sampling
        ).tokens

    return Counter(decode(seed)[:2] for seed in range(n_draws))


@each_number
def test_the_first_two_tokens_have_the_targets_law(
    impl: Any, pair: Pair, prompt: Tensor, n_draws: int
) -> None:
    law = two_token_law(pair.target, prompt, Sampling(top_k=TOP_K), impl)
    counts = first_two_tokens(impl, pair, prompt, n_draws)
    assert g_test(counts, law).p_value > FALSE_ALARM


@pytest.mark.parametrize("n_draws, shift", [(FEW, 0.05), (MANY, 0.02)])
def test_so_many_draws_find_a_shift(
    impl: Any, pair: Pair, prompt: Tensor, n_draws: int, shift: float
) -> None:
    """So much of the mass moved to the likeliest outcome, where it shows least."""
    law = two_token_law(pair.target, prompt, Sampling(top_k=TOP_K), impl)
    likeliest = max(law, key=lambda outcome: law[outcome])
    rest = 1 - law[likeliest]
    shifted = {outcome: prob * (1 - shift / rest) for outcome, prob in law.items()}
    shifted[likeliest] = law[likeliest] + shift
    assert power(law, shifted, n_draws, FALSE_ALARM) > POWER


def test_the_g_test_rejects_a_wrong_residual(
    impl: Any, pair: Pair, prompt: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a refusal, draw from the target's row as if nothing had been refused."""
    rejection = impl.rejection
    monkeypatch.setattr(rejection, "residual", lambda target_row, draft_row: target_row)
    law = two_token_law(pair.target, prompt, Sampling(top_k=TOP_K), impl)
    counts = first_two_tokens(impl, pair, prompt, WRONG)
    assert g_test(counts, law).p_value < FALSE_ALARM

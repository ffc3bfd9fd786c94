"""The capstone: everything together, exact by enumeration, and on the shipped pair.

In an ordinary run this is the reference. With --impl it is all of a learner's functions
at once, the models' attention and caches among them; the laws that they must have come
from an oracle that runs the untouched reference without cache or draft.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from minispec import autoregressive
from minispec.exactness import assert_same_law, output_law
from minispec.pair import SHIPPED, load_pair
from minispec.randomness import Randomness, Seeded
from minispec.sampling import Sampling

from decoding import next_row, tiny
from oracles import naive_law
from under_test import under_test

pytestmark = pytest.mark.capstone

V, GAMMA, N_NEW, CONTEXT = 3, 2, 3, 8
PROMPT = [0, 1, 0]
GREEDY = Sampling(temperature=0)


@pytest.mark.parametrize("eos_ids", [(), (2, 1)], ids=["no EOS", "two EOS ids"])
@pytest.mark.parametrize("drafter", ["none", "model", "ngram"])
@pytest.mark.parametrize(
    "sampling",
    [Sampling(0.8), Sampling(1.5, top_k=2), Sampling(top_p=0.7), GREEDY],
    ids=["warm", "top-k", "top-p", "greedy"],
)
def test_the_law_is_the_targets(
    impl: Any, sampling: Sampling, drafter: str, eos_ids: tuple[int, ...]
) -> None:
    reference = tiny(V, 5, CONTEXT)
    target, prompt = under_test(impl, reference), torch.tensor(PROMPT)
    draft = under_test(impl, tiny(V, 6, CONTEXT))

    def run(chance: Randomness) -> tuple[int, ...]:
        if drafter == "none":
            return impl.autoregressive.generate(
                target, prompt, N_NEW, chance, sampling, eos_ids
            ).tokens
        guess = impl.drafters.ngram.NgramDrafter(V, longest=2)
        if drafter == "model":
            guess = impl.draft.ModelDrafter(draft, sampling)
        return impl.speculative.generate(
            target, guess, prompt, GAMMA, N_NEW, chance, sampling, eos_ids
        ).tokens

    expected = naive_law(
        lambda text: next_row(reference, sampling, text).tolist(),
        PROMPT,
        N_NEW,
        CONTEXT,
        eos_ids,
    )
    assert_same_law(output_law(run), expected)


def test_the_shipped_pair_writes_what_the_target_alone_writes(impl: Any) -> None:
    """Greedy, with both drafters; then sampled, where the acceptance rate must agree
    with what the speed-up is foretold from."""
    if not (SHIPPED / "target" / "model.safetensors").is_file():
        pytest.skip("the shipped pair is not in weights/shakespeare")
    pair = load_pair(SHIPPED / "target", SHIPPED / "draft")
    assert pair.draft is not None
    target, draft = under_test(impl, pair.target), under_test(impl, pair.draft)
    prompt = torch.tensor(pair.tokenizer.encode("ROMEO:\n"))
    alone = autoregressive.generate(pair.target, prompt, 32, Seeded(0), GREEDY).tokens
    guesses = [
        impl.draft.ModelDrafter(draft, GREEDY),
        impl.drafters.ngram.NgramDrafter(pair.tokenizer.vocab_size),
    ]
    for guess in guesses:
        found = impl.speculative.generate(
            target, guess, prompt, 4, 32, impl.randomness.Seeded(1), GREEDY
        )
        assert found.tokens == alone
    warm = Sampling(temperature=0.8)
    guess = impl.draft.ModelDrafter(draft, warm)
    found = impl.speculative.generate(
        target, guess, prompt, 4, 64, impl.randomness.Seeded(2), warm
    )
    assert len(found.tokens) == 64 and 0 < found.acceptance_rate < 1
    foretold = impl.analysis.expected_tokens(found.acceptance_rate, 4)
    assert abs(found.tokens_per_target_forward - foretold) < 1
    assert impl.analysis.best_gamma(found.acceptance_rate, 0.05) > 0

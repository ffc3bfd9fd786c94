"""At temperature 0 speculation changes nothing at all, token for token.

Float64, because in float32 the two ways of computing a row differ in the last bits and
may break a near tie differently. Exact ties are in the models on purpose.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from minispec.gpt2 import GPT
from minispec.randomness import Seeded
from minispec.sampling import Sampling

from decoding import Stateless, next_row, tied_gpt

V, N_NEW, EOS = 6, 17, 5
GAMMAS = range(1, 9)
CHAINS = {
    "greedy": Sampling(temperature=0),
    "penalty": Sampling(temperature=0, repetition_penalty=1.3),
    "top-k": Sampling(temperature=0, top_k=2, top_p=0.9),
    "no early EOS": Sampling(temperature=0, min_length=9, eos_ids=(EOS, 2)),
}
PROMPTS = [[0], [3, 1, 4, 1, 5], [2, 2, 0, 2, 2]]


def one_hot(token: int) -> Tensor:
    return torch.eye(V, dtype=torch.float64)[token]


def adversary(kind: str, target: GPT, sampling: Sampling) -> Stateless:
    """A drafter that knows the target and misleads it."""

    def row_after(text: list[int]) -> Tensor:
        best = int(next_row(target, sampling, text).argmax())
        if kind == "the twin of the best":  # its logit is the same
            return one_hot(best ^ 1)
        if kind == "right, then wrong":
            wrong = torch.tensor([len(text) % 3 == 0])
            return one_hot((best + 3) % V if wrong else best)
        if kind == "EOS inside":
            return one_hot(EOS if len(text) % 3 == 0 else best)
        if kind == "never the best":
            return (1 - one_hot(best)) / (V - 1)
        return torch.full((V,), 1 / V, dtype=torch.float64)  # anything at all

    return Stateless(row_after)


ADVERSARIES = [
    "the twin of the best",
    "right, then wrong",
    "EOS inside",
    "never the best",
    "anything",
]
DRAFTERS = ["model", "warm model", "itself", "ngram", *ADVERSARIES]


def make_drafter(impl: Any, kind: str, target: GPT, sampling: Sampling) -> Any:
    if kind == "ngram":
        return impl.drafters.ngram.NgramDrafter(V)
    if kind == "itself":
        return impl.draft.ModelDrafter(target, sampling)
    if kind in ADVERSARIES:
        return adversary(kind, target, sampling)
    draft_sampling = Sampling(temperature=1.5) if kind == "warm model" else sampling
    return impl.draft.ModelDrafter(tied_gpt(V, seed=90), draft_sampling)


@cache
def target_of(seed: int) -> GPT:
    return tied_gpt(V, seed)


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("chain", CHAINS)
def test_the_text_is_the_targets_own(impl: Any, chain: str, drafter: str) -> None:
    sampling, accepted, refused = CHAINS[chain], 0, 0
    for gamma in GAMMAS:
        target = target_of(gamma % 3)
        prompt = torch.tensor(PROMPTS[gamma % 2])
        eos_ids = ((), (EOS, 2))[(gamma + len(chain)) % 2]
        plain = impl.autoregressive.generate(
            target, prompt, N_NEW, Seeded(), sampling, eos_ids
        )
        quick = impl.speculative.generate(
            target,
            make_drafter(impl, drafter, target, sampling),
            prompt,
            gamma,
            N_NEW,
            Seeded(gamma),
            sampling,
            eos_ids,
        )
        assert quick.tokens == plain.tokens, f"gamma {gamma}, EOS {eos_ids}"
        assert quick.finish_reason == plain.finish_reason
        accepted += quick.accepted
        refused += sum(d.fate == "refused" for r in quick.rounds for d in r.drafted)
    if drafter in ("the twin of the best", "never the best"):
        assert accepted == 0 < refused
    if drafter == "itself":
        assert refused == 0 < accepted
    if drafter in ("right, then wrong", "anything", "warm model"):
        assert accepted > 0 and refused > 0


@pytest.mark.parametrize("drafter", ["model", "warm model", "ngram", "anything"])
def test_no_seed_changes_it(impl: Any, drafter: str) -> None:
    sampling, target = CHAINS["greedy"], target_of(1)
    prompt = torch.tensor(PROMPTS[2])
    plain = impl.autoregressive.generate(target, prompt, N_NEW, Seeded(), sampling)
    for seed in range(12):
        quick = impl.speculative.generate(
            target,
            make_drafter(impl, drafter, target, sampling),
            prompt,
            3,
            N_NEW,
            Seeded(seed),
            sampling,
        )
        assert quick.tokens == plain.tokens


@pytest.mark.parametrize("seed", range(3))
def test_the_ties_are_real(impl: Any, seed: int) -> None:
    """The highest logit is shared, to the bit, all along the text; the low id wins."""
    target, prompt = target_of(seed), torch.tensor(PROMPTS[1])
    greedy = CHAINS["greedy"]
    done = impl.autoregressive.generate(target, prompt, N_NEW, Seeded(), greedy)
    text = torch.cat([prompt, torch.tensor(done.tokens)])
    logits = target(text[None])[0, len(prompt) - 1 : -1]
    tied = (logits == logits.amax(-1, keepdim=True)).sum(-1)
    assert (tied >= 2).all()
    assert logits.argmax(-1).tolist() == list(done.tokens)

"""At temperature 0 speculation changes nothing at all, token for token.

Float64, because in float32 the two ways of computing a row differ in the last bits and
may break a near tie differently. Exact ties are in the models on purpose.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from minispec import GPT, ModelDrafter, NgramDrafter, Request, Sampling, Seeded
from minispec import generate, generate_alone

from support.decoding import Stateless, next_row, tiny

V, N_NEW, EOS = 6, 17, (5, 2)
CHAINS = {
    "greedy": Sampling(0),
    "greedy with EOS": Sampling(0, eos_ids=EOS),
    "penalty": Sampling(0, repetition_penalty=1.3),
    "top-k, top-p": Sampling(0, top_k=2, top_p=0.9),
    "no early EOS": Sampling(0, min_length=9, eos_ids=EOS),
}
DRAFTERS = ["warm model", "ngram", "the twin of the best"]


@torch.no_grad()
def tied(seed: int) -> GPT:
    """A model whose highest logits are often exactly equal.

    The vectors of tokens 2i and 2i + 1 are the same, and each is two weights of +-1
    among zeros: a logit is then one sum of two numbers, rounded once, whatever the
    order in which a kernel adds.
    """
    generator = torch.Generator().manual_seed(seed)
    model, vectors = tiny(V, seed, n_positions=32), torch.zeros(V, 4).double()
    for row in vectors[::2]:
        for column in torch.randperm(4, generator=generator)[:2]:
            row[column] = 1 - 2 * int(torch.randint(0, 2, (), generator=generator))
    vectors[1::2] = vectors[::2]
    model.wte.weight.copy_(vectors)
    return model


def drafter_of(kind: str, target: GPT, sampling: Sampling) -> Any:
    def twin(text: list[int]) -> Tensor:  # of the best: its logit is the same
        return next_row(target, sampling, text)[torch.arange(V) ^ 1]

    if kind == "warm model":
        return ModelDrafter(tied(90), Sampling(1.5))
    return NgramDrafter(V) if kind == "ngram" else Stateless(twin)


@pytest.mark.parametrize("kind", DRAFTERS)
@pytest.mark.parametrize("chain", CHAINS)
def test_the_text_is_the_targets_own(chain: str, kind: str) -> None:
    sampling = CHAINS[chain]
    for gamma in range(1, 6):
        target, prompt = tied(gamma % 3), torch.tensor([3, 1, 4, 1, 5][:gamma])
        request = Request(prompt, N_NEW, sampling, gamma)
        plain = generate_alone(target, request, Seeded())
        quick = generate(target, drafter_of(kind, target, sampling), request, Seeded())
        assert quick.tokens == plain.tokens, f"gamma {gamma}"
        assert quick.finish_reason == plain.finish_reason
        assert kind != "the twin of the best" or quick.accepted == 0 < quick.judged


@pytest.mark.parametrize("seed", range(3))
def test_the_ties_are_real(seed: int) -> None:
    """The highest logit is shared, to the bit, all along the text; the low id wins."""
    target, prompt = tied(seed), torch.tensor([3, 1, 4])
    done = generate_alone(target, Request(prompt, N_NEW, CHAINS["greedy"]), Seeded())
    logits = target(torch.cat([prompt, torch.tensor(done.tokens)])[None])[0, 2:-1]
    assert ((logits == logits.amax(-1, keepdim=True)).sum(-1) >= 2).all()
    assert logits.argmax(-1).tolist() == list(done.tokens)

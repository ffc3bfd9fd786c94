"""The gate: the speculative text has exactly the target's distribution.

Both decoders run as they stand, with caches, rollbacks, EOS and budget, down every
branch of chance (`minispec/exactness`). What is compared, to 1e-12, is the probability
of every (new tokens, reason for the end) that can come out:

    every drafter  x  every way to sample  x  every way to end
    and the corners: lengths, prompts, drafts that sample differently, contexts that end

A new drafter, judge or length policy is one line in a table below, and is proved by the
same comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import pytest
import torch
from torch import Tensor

from minispec import Generation, ModelDrafter, NgramDrafter, Request, Sampling
from minispec.core.autoregressive import generate_alone
from minispec.core.draft import Drafter
from minispec.core.randomness import Randomness
from minispec.core.rejection import Judge, reject
from minispec.core.rounds import Length, Round
from minispec.core.speculative import generate
from minispec.exactness import (
    Distribution,
    assert_same_distribution,
    output_distribution,
)
from minispec.model.gpt2 import GPT

from support.decoding import Stateless, next_row, tiny

pytestmark = pytest.mark.capstone  # a learner's complete work must pass it too
V = 3


@dataclass(frozen=True)
class Case:
    """One request, and who drafts for it. The defaults are the plainest one."""

    sampling: Sampling = Sampling()
    drafter: str = "model"
    gamma: int | Length = 2
    judge: Judge = reject
    n_new: int = 4
    prompt: tuple[int, ...] = (0, 1, 0)
    vocab_size: int = V
    context: int = 16  # of the target
    draft_sampling: Sampling | None = None  # None: the target's
    draft_context: int = 16
    seed: int = 0

    def target(self) -> GPT:
        return tiny(self.vocab_size, self.seed, self.context)

    def request(self) -> Request:
        prompt = torch.tensor(self.prompt)
        return Request(prompt, self.n_new, self.sampling, self.gamma, self.judge)


# ------------------------------------------------------------------------ the drafters


def model_drafter(case: Case, target: GPT) -> Drafter:
    model = tiny(case.vocab_size, case.seed + 100, case.draft_context)
    return ModelDrafter(model, case.draft_sampling or case.sampling)


def target_as_drafter(case: Case, target: GPT) -> Drafter:
    return ModelDrafter(target, case.draft_sampling or case.sampling)


def uniform_drafter(case: Case, target: GPT) -> Drafter:
    row = torch.full((case.vocab_size,), 1 / case.vocab_size, dtype=torch.float64)
    return Stateless(lambda text: row)


def impossible_drafter(case: Case, target: GPT) -> Drafter:
    """Only proposes what the target would never say, where there is such a token."""

    def row_after(text: list[int]) -> Tensor:
        never = (next_row(target, case.sampling, text) == 0).to(torch.float64)
        return never / never.sum()

    return Stateless(row_after)


DRAFTERS: dict[str, Callable[[Case, GPT], Drafter]] = {
    "model": model_drafter,
    "ngram": lambda case, target: NgramDrafter(case.vocab_size, longest=2),
    "uniform": uniform_drafter,
    "the target itself": target_as_drafter,
    "impossible": impossible_drafter,
}

# --------------------------------------------------------------------- the comparison


def one_output(done: Generation) -> tuple[int, ...]:
    """The new tokens and, as a number that is not a token, why the text ended."""
    assert done.finish_reason is not None
    return *done.tokens, {"eos": -1, "length": -2, "context": -3}[done.finish_reason]


@cache
def alone(case: Case) -> Distribution:
    target, request = case.target(), case.request()
    return output_distribution(
        lambda chance: one_output(generate_alone(target, request, chance))
    )


def speculative(
    case: Case, watch: Callable[[Generation], None] = lambda done: None
) -> Distribution:
    """`watch` sees every branch. One drafter object serves them all, in turn."""
    target, request = case.target(), case.request()
    drafter = DRAFTERS[case.drafter](case, target)

    def run(chance: Randomness) -> tuple[int, ...]:
        done = generate(target, drafter, request, chance)
        watch(done)
        return one_output(done)

    return output_distribution(run)


def expected(case: Case) -> Distribution:
    """The target's: it depends on nothing that concerns drafting."""
    plain = Case()
    return alone(
        replace(
            case,
            drafter=plain.drafter,
            gamma=plain.gamma,
            judge=plain.judge,
            draft_sampling=None,
            draft_context=plain.draft_context,
        )
    )


def same(case: Case) -> None:
    assert_same_distribution(speculative(case), expected(case))


# ------------------------------------------------------------ everything by everything

SAMPLINGS = {
    "plain": Sampling(),
    "sharp": Sampling(temperature=0.4),
    "flat": Sampling(temperature=1.8),
    "greedy": Sampling(temperature=0),
    "top-k": Sampling(top_k=2),
    "top-p": Sampling(top_p=0.6),
    "min-p": Sampling(min_p=0.5),
    "penalty": Sampling(repetition_penalty=1.8),
    "all at once": Sampling(0.9, 3, 0.95, 0.05, 1.4),
}
ENDINGS = {
    "budget": {},
    "eos": {"eos_ids": (1,)},
    "two eos": {"eos_ids": (2, 0)},
    "late eos": {"eos_ids": (0,), "min_length": 5},
    "context": {"context": 5, "n_new": 9},
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_the_distribution_is_the_targets(
    drafter: str, sampling: str, ending: str
) -> None:
    how = {"eos_ids": (), "min_length": 0, "n_new": 3, "context": 16, **ENDINGS[ending]}
    eos_ids, min_length = how.pop("eos_ids"), how.pop("min_length")
    chain = replace(SAMPLINGS[sampling], eos_ids=eos_ids, min_length=min_length)
    same(Case(chain, drafter, **how))


# ------------------------------------------------------------------------- the corners


def growing(past: Sequence[Round]) -> int:
    """A length policy: one more after full acceptance, one less otherwise."""
    gamma = 1
    for one in past:
        gamma = gamma + 1 if one.n_accepted == len(one.tokens) else max(0, gamma - 1)
    return gamma


CORNERS = {
    "gamma 1": Case(gamma=1),
    "gamma 3": Case(vocab_size=2, prompt=(1,), gamma=3, n_new=4, seed=1),
    "gamma beyond the budget": Case(vocab_size=2, prompt=(1, 0), gamma=9, seed=2),
    "a gamma that follows the past": Case(
        vocab_size=2, prompt=(1, 0), gamma=growing, n_new=5, seed=3
    ),
    "a gamma of 0 now and then": Case(gamma=lambda past: len(past) % 2, seed=4),
    "a budget of 1 drafts nothing": Case(n_new=1),
    "a prompt of one token": Case(prompt=(2,), gamma=1),
    "a long prompt": Case(vocab_size=2, prompt=(0, 1, 1, 0, 1, 0, 0)),
    "four tokens": Case(vocab_size=4, n_new=2, seed=5),
    "all ids are EOS": Case(Sampling(eos_ids=(0, 1, 2))),
    "an EOS is copied": Case(
        Sampling(eos_ids=(1,)), "ngram", prompt=(0, 1, 2, 0), n_new=4
    ),
    "late EOS on the target alone": Case(
        Sampling(eos_ids=(0,), min_length=5), n_new=3, draft_sampling=Sampling()
    ),
    "a greedy target, a warm draft": Case(
        Sampling(temperature=0), draft_sampling=Sampling()
    ),
    "a greedy draft": Case(draft_sampling=Sampling(temperature=0)),
    "a draft that samples differently": Case(
        draft_sampling=Sampling(0.5, top_k=2, min_p=0.1)
    ),
    "a truncated target, a raw draft": Case(
        Sampling(top_k=2), draft_sampling=Sampling()
    ),
    "a penalty on the target alone": Case(
        Sampling(repetition_penalty=1.8), n_new=3, draft_sampling=Sampling()
    ),
    "uniform drafts": Case(vocab_size=2, prompt=(1, 0), drafter="uniform", gamma=3),
    "the draft is the target, warmer": Case(
        vocab_size=2,
        prompt=(1, 0),
        drafter="the target itself",
        draft_sampling=Sampling(temperature=1.8),
    ),
    "the prompt fills the context": Case(prompt=(1, 0), n_new=9, context=2),
    "the prompt leaves one position": Case(prompt=(1, 0), n_new=9, context=3),
    "budget and context end together": Case(prompt=(1, 0), n_new=3, context=4),
    "the draft's context ends first": Case(
        vocab_size=2, prompt=(1, 0), gamma=3, n_new=5, draft_context=4
    ),
    "the draft's context is the prompt": Case(draft_context=3),
    "the prompt is beyond the draft's context": Case(draft_context=2),
}


@pytest.mark.parametrize("corner", CORNERS)
def test_the_distribution_is_the_targets_in_the_corner(corner: str) -> None:
    same(CORNERS[corner])


# ------------------------------------------------------ two ends of the acceptance rate


@pytest.mark.parametrize("gamma", [1, 5])
def test_drafts_that_cannot_be_accepted_leave_one_token_a_round(gamma: int) -> None:
    case = Case(Sampling(top_k=2), "impossible", gamma)

    def watch(done: Generation) -> None:
        assert done.accepted == 0 and done.target_forwards == done.emitted == 4

    assert_same_distribution(speculative(case, watch), expected(case))


def test_a_draft_that_is_the_target_is_never_rejected() -> None:
    """A round is then its drafts and a bonus; only rounding could say otherwise."""
    case = Case(drafter="the target itself", vocab_size=2, prompt=(1, 0), n_new=5)
    target, request = case.target(), case.request()
    drafter = target_as_drafter(case, target)

    def run(chance: Randomness) -> list[int]:
        done = generate(target, drafter, request, chance)
        return [len(one.committed) for one in done.rounds]

    assert output_distribution(run)[3, 2] > 1 - 1e-12

"""The gate: the speculative text has exactly the target's distribution.

Both decoders run as they stand, with caches, rollbacks, EOS and budget, down every
branch of chance (`minispec/exactness`). What is compared, to 1e-12, is the probability
of every (new tokens, reason for the end) that can come out:

    every drafter  x  every way to sample  x  every way to end
    every exact judge  x  every drafter  x  every way to sample, with EOS in drafts
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
from minispec.core.lengths import accepted_history, best_length
from minispec.core.randomness import Randomness
from minispec.core.rejection import Judge, reject
from minispec.core.rounds import Length, Round
from minispec.core.speculative import generate
from minispec.drafters.block_diffusion import BlockDiffusion
from minispec.drafters.eagle import Eagle, Eagle3
from minispec.drafters.early_exit import EarlyExit
from minispec.drafters.heads import Head
from minispec.drafters.medusa import Medusa
from minispec.drafters.mtp import MTP, IndependentHeads
from minispec.drafters.suffix import SuffixDrafter
from minispec.exactness import (
    Distribution,
    assert_same_distribution,
    output_distribution,
)
from minispec.judges import EXACT
from minispec.judges.block import reject_block
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
    stop_below: float = 0.0
    seed: int = 0
    n_layer: int = 1  # of the target

    def target(self) -> GPT:
        return tiny(self.vocab_size, self.seed, self.context, self.n_layer)

    def request(self) -> Request:
        prompt = torch.tensor(self.prompt)
        return Request(prompt, self.n_new, self.sampling, self.gamma, self.judge)


# ------------------------------------------------------------------------ the drafters


def model_drafter(case: Case, target: GPT) -> Drafter:
    model = tiny(case.vocab_size, case.seed + 100, case.draft_context)
    return ModelDrafter(model, case.draft_sampling or case.sampling, case.stop_below)


def target_as_drafter(case: Case, target: GPT) -> Drafter:
    return ModelDrafter(target, case.draft_sampling or case.sampling)


def uniform_drafter(case: Case, target: GPT) -> Drafter:
    row = torch.full((case.vocab_size,), 1 / case.vocab_size, dtype=torch.float64)
    return Stateless(lambda text: row)


def impossible_drafter(case: Case, target: GPT) -> Drafter:
    """Only proposes what the target would never say, or says least."""

    def row_after(text: list[int]) -> Tensor:
        row = next_row(target, case.sampling, text)
        least = (row == row.min()).to(torch.float64)
        return least / least.sum()

    return Stateless(row_after)


def trained_for(case: Case, target: GPT, head: Head) -> Drafter:
    """With a head of random weights, large enough for each to matter."""
    noise = torch.Generator().manual_seed(case.seed + 200)
    for parameter in head.double().requires_grad_(False).parameters():
        parameter.normal_(0.2, 0.8, generator=noise)
    return head.drafter(target, case.draft_sampling or case.sampling)


def early_exit(case: Case, target: GPT) -> Drafter:
    return trained_for(case, target, EarlyExit(target.config, 1, 3))


def block_diffusion(case: Case, target: GPT) -> Drafter:
    return trained_for(case, target, BlockDiffusion(target.config, 4, 2, 1, 2))


DRAFTERS: dict[str, Callable[[Case, GPT], Drafter]] = {
    "model": model_drafter,
    "ngram": lambda case, target: NgramDrafter(case.vocab_size, longest=2),
    "suffix": lambda case, target: SuffixDrafter(case.vocab_size, least=0.0),
    "uniform": uniform_drafter,
    "the target itself": target_as_drafter,
    "impossible": impossible_drafter,
    "early exit": early_exit,
    "block diffusion": block_diffusion,
    "eagle": lambda case, target: trained_for(case, target, Eagle(target.config, 4, 2)),
    "eagle 3": lambda case, target: trained_for(
        case, target, Eagle3(target.config, 4, 2)
    ),
    "medusa": lambda case, target: trained_for(case, target, Medusa(target.config, 2)),
    "mtp": lambda case, target: trained_for(case, target, MTP(target.config, 3, 2, 3)),
    "independent heads": lambda case, target: trained_for(
        case, target, IndependentHeads(target.config, 2, 2, 3)
    ),
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
    target = getattr(drafter, "target", target)  # early exit brings a stand-in

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
            stop_below=plain.stop_below,
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
    "coupled": Sampling(noise_seed=1),
    "all at once, coupled": Sampling(0.9, 3, 0.95, 0.05, 1.4, noise_seed=2),
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
@pytest.mark.parametrize("drafter", ["model", "ngram", "suffix"])
def test_the_distribution_is_the_targets(
    drafter: str, sampling: str, ending: str
) -> None:
    how = {"eos_ids": (), "min_length": 0, "n_new": 3, "context": 16, **ENDINGS[ending]}
    eos_ids, min_length = how.pop("eos_ids"), how.pop("min_length")
    chain = replace(SAMPLINGS[sampling], eos_ids=eos_ids, min_length=min_length)
    same(Case(chain, drafter, **how))


# ------------------------------------------------ drafters that read the target's mind

HEADS = ["early exit", "block diffusion", "eagle", "eagle 3", "medusa", "mtp"]
HEADS += ["independent heads"]
ONE_BY_ONE = [
    *((sampling, "budget") for sampling in SAMPLINGS),
    *((how, ending) for how in ("plain", "all at once") for ending in ENDINGS),
]


@pytest.mark.parametrize("sampling, ending", dict.fromkeys(ONE_BY_ONE))
@pytest.mark.parametrize("drafter", HEADS)
def test_the_distribution_is_the_targets_whose_mind_is_read(
    drafter: str, sampling: str, ending: str
) -> None:
    n_new = 3 if drafter == "early exit" else 4  # the others begin without drafts
    how = {"eos_ids": (), "min_length": 0, "n_new": n_new, "context": 16}
    how |= ENDINGS[ending]
    eos_ids, min_length = how.pop("eos_ids"), how.pop("min_length")
    chain = replace(SAMPLINGS[sampling], eos_ids=eos_ids, min_length=min_length)
    same(Case(chain, drafter, n_layer=2, **how))


@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("judge", EXACT.keys() - {"reject"})
def test_the_distribution_is_the_targets_whoever_judges(
    judge: str, sampling: str, drafter: str
) -> None:
    """A judge may look at drafts after an EOS, though the text is cut there."""
    chain = replace(SAMPLINGS[sampling], eos_ids=(1,))
    n_layer = 2 if drafter in HEADS else 1
    same(Case(chain, drafter, judge=EXACT[judge], n_new=3, n_layer=n_layer))


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
    "a gamma that grows by 2 and shrinks by 1": Case(
        vocab_size=2, prompt=(1, 0), gamma=accepted_history(1), n_new=4, seed=3
    ),
    "the gamma that paid best": Case(
        vocab_size=2, prompt=(1, 0), gamma=best_length(0.2), n_new=4, seed=3
    ),
    "stopping when unsure": Case(
        vocab_size=2, prompt=(1, 0), gamma=3, n_new=4, stop_below=0.5, seed=3
    ),
    "a block of 3": Case(
        Sampling(eos_ids=(1,)),
        vocab_size=2,
        prompt=(1, 0),
        gamma=3,
        judge=reject_block,
        n_new=5,
    ),
    "blocks of every length": Case(
        vocab_size=2,
        prompt=(1, 0),
        gamma=growing,
        judge=reject_block,
        n_new=5,
        stop_below=0.5,
        draft_sampling=Sampling(0.5),
        seed=3,
    ),
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
    **{
        f"{head}, judged as a block": Case(
            drafter=head, n_layer=2, judge=reject_block, n_new=5, gamma=3, vocab_size=2
        )
        for head in HEADS
    },
    **{
        f"{head}, greedy drafts": Case(
            drafter=head, n_layer=2, draft_sampling=Sampling(temperature=0)
        )
        for head in HEADS
    },
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

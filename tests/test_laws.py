"""The gate: the whole law of the speculative text is the target's own, to 1e-12.

Both decoders run as they stand, caches, rollbacks, EOS and budget included, down every
branch of chance. What is compared is the law of (new tokens, reason for the end).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from minispec.exactness import Law, largest_difference, output_law
from minispec.gpt2 import GPT
from minispec.randomness import Randomness
from minispec.sampling import Sampling

from decoding import Stateless, next_row, tiny
from mutating import graft_mutant, read

REASONS = {"eos": -1, "length": -2, "context": -3}  # no token's id


@dataclass(frozen=True)
class Case:
    """One request, and who drafts for it. The defaults are the plainest one."""

    V: int = 3
    gamma: int = 2
    n_new: int = 3
    seed: int = 0
    prompt: tuple[int, ...] = (1, 0)
    sampling: Sampling = Sampling()
    draft_sampling: Sampling | None = None  # None: the target's
    drafter: str = "model"
    eos_ids: tuple[int, ...] = ()
    context: int = 16
    draft_context: int = 16

    @property
    def target(self) -> GPT:
        return tiny(self.V, self.seed, self.context)

    @property
    def draft(self) -> GPT:
        if self.drafter == "itself":
            return self.target
        return tiny(self.V, self.seed + 100, self.draft_context)


def make_drafter(impl: Any, case: Case, target: GPT) -> Any:
    if case.drafter == "ngram":
        return impl.drafters.ngram.NgramDrafter(case.V, longest=2)
    if case.drafter == "disjoint":
        return Stateless(lambda text: outside_support(target, case.sampling, text))
    if case.drafter == "uniform":
        row = torch.full((case.V,), 1 / case.V, dtype=torch.float64)
        return Stateless(lambda text: row)
    sampling = case.draft_sampling or case.sampling
    return impl.draft.ModelDrafter(case.draft, sampling)


def outside_support(target: GPT, sampling: Sampling, text: list[int]) -> Tensor:
    """The flat row over what the target would never say here."""
    impossible = (next_row(target, sampling, text) == 0).to(torch.float64)
    return impossible / impossible.sum()


def autoregressive_law(impl: Any, case: Case) -> Law:
    target, prompt = case.target, torch.tensor(case.prompt)

    def run(chance: Randomness) -> tuple[int, ...]:
        done = impl.autoregressive.generate(
            target, prompt, case.n_new, chance, case.sampling, case.eos_ids
        )
        return (*done.tokens, REASONS[done.finish_reason])

    return output_law(run)


def speculative_law(
    impl: Any, case: Case, watch: Callable[[Any], None] = lambda done: None
) -> Law:
    """`watch` sees every branch's Generation. One drafter object serves them all."""
    target, prompt = case.target, torch.tensor(case.prompt)
    drafter = make_drafter(impl, case, target)

    def run(chance: Randomness) -> tuple[int, ...]:
        done = impl.speculative.generate(
            target,
            drafter,
            prompt,
            case.gamma,
            case.n_new,
            chance,
            case.sampling,
            case.eos_ids,
        )
        watch(done)
        return (*done.tokens, REASONS[done.finish_reason])

    return output_law(run)


def difference(impl: Any, case: Case) -> float:
    law = speculative_law(impl, case)
    return largest_difference(law, autoregressive_law(impl, case))


SHARP, FLAT = Sampling(temperature=0.4), Sampling(temperature=1.8)
PENALTY = Sampling(repetition_penalty=1.8)
LATE_EOS = Sampling(min_length=4, eos_ids=(0,))
EVERYTHING = Sampling(0.9, 3, 0.95, 0.05, 1.4, min_length=3, eos_ids=(0, 2))

CASES: dict[str, Case] = {
    "V 2, gamma 1": Case(V=2, gamma=1, n_new=4),
    "V 2, gamma 2": Case(V=2, gamma=2, n_new=4, seed=1),
    "V 2, gamma 3": Case(V=2, gamma=3, n_new=4, seed=2),
    "V 3, gamma 1": Case(gamma=1, seed=3),
    "V 3, gamma 2": Case(seed=4),
    "V 4, gamma 1": Case(V=4, gamma=1, n_new=2, seed=5),
    "V 4, gamma 2, tokens 2": Case(V=4, n_new=2, seed=6),
    "a budget of 1 drafts nothing": Case(n_new=1, seed=7),
    "gamma beyond the budget": Case(V=2, gamma=9, n_new=3, seed=8),
    "a prompt of one token": Case(prompt=(2,), V=3, gamma=1, seed=9),
    "a long prompt": Case(V=2, prompt=(0, 1, 1, 0, 1, 0, 0), n_new=3, seed=10),
    "sharp": Case(gamma=1, sampling=SHARP, seed=11),
    "flat": Case(gamma=1, sampling=FLAT, seed=12),
    "greedy": Case(gamma=3, n_new=4, sampling=Sampling(temperature=0)),
    "greedy target, warm draft": Case(
        sampling=Sampling(temperature=0), draft_sampling=Sampling(), seed=13
    ),
    "greedy draft": Case(draft_sampling=Sampling(temperature=0), seed=14),
    "top-k": Case(V=4, sampling=Sampling(top_k=2), gamma=3, n_new=3, seed=15),
    "top-k 1": Case(sampling=Sampling(top_k=1), draft_sampling=Sampling(), seed=16),
    "top-p": Case(sampling=Sampling(top_p=0.6), seed=17),
    "min-p": Case(sampling=Sampling(min_p=0.5), seed=18),
    "penalty": Case(V=2, gamma=3, n_new=4, sampling=PENALTY, seed=19),
    "penalty on the target alone": Case(
        V=2, gamma=2, n_new=4, sampling=PENALTY, draft_sampling=Sampling(), seed=20
    ),
    "penalty, ngram": Case(
        V=3, prompt=(0, 1, 0), sampling=PENALTY, drafter="ngram", n_new=4, seed=21
    ),
    "no early EOS": Case(sampling=LATE_EOS, eos_ids=(0,), gamma=2, seed=22),
    "no early EOS, on the target alone": Case(
        V=2, sampling=LATE_EOS, draft_sampling=Sampling(), eos_ids=(0,), n_new=4
    ),
    "one EOS": Case(eos_ids=(1,), seed=23),
    "EOS is id 0": Case(V=2, eos_ids=(0,), gamma=3, n_new=4, seed=24),
    "two EOS ids": Case(V=4, eos_ids=(2, 1), n_new=3, gamma=1, seed=25),
    "all ids are EOS": Case(eos_ids=(0, 1, 2), seed=26),
    "everything": Case(
        V=4, gamma=1, n_new=3, sampling=EVERYTHING, eos_ids=(0, 2), seed=27
    ),
    "a draft that samples otherwise": Case(
        V=3, gamma=2, draft_sampling=Sampling(0.5, top_k=2, min_p=0.1), seed=28
    ),
    "a truncated target, a raw draft": Case(
        sampling=Sampling(top_k=2), draft_sampling=Sampling(), seed=29
    ),
    "the draft is the target": Case(drafter="itself", seed=30),
    "the draft is the target, warmer": Case(
        drafter="itself", V=2, gamma=2, n_new=4, draft_sampling=FLAT, seed=31
    ),
    "ngram": Case(prompt=(0, 1, 0), drafter="ngram", n_new=4, gamma=3, seed=32),
    "ngram, V 2": Case(V=2, prompt=(1,), drafter="ngram", n_new=5, gamma=3, seed=33),
    "ngram, EOS copied": Case(
        prompt=(0, 1, 2, 0), drafter="ngram", eos_ids=(1,), n_new=4, seed=34
    ),
    "ngram, sharp": Case(
        prompt=(0, 1, 2, 0), drafter="ngram", sampling=SHARP, n_new=4, seed=35
    ),
    "uniform drafts": Case(V=2, drafter="uniform", gamma=3, n_new=4, seed=36),
    "the context ends the text": Case(n_new=9, context=5, seed=37),
    "the context ends it, ngram": Case(
        prompt=(0, 1, 0), n_new=9, context=6, drafter="ngram", seed=38
    ),
    "the prompt fills the context": Case(n_new=9, context=2, seed=39),
    "budget and context end together": Case(V=2, n_new=3, context=5, seed=40),
    "the draft's context ends first": Case(
        V=2, gamma=3, n_new=5, draft_context=4, seed=41
    ),
    "the draft's context is the prompt": Case(V=2, n_new=4, draft_context=2, seed=42),
    "the prompt is beyond the draft's context": Case(
        V=2, prompt=(0, 1, 1), n_new=3, draft_context=2, seed=43
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_law_is_the_targets(impl: Any, name: str) -> None:
    assert difference(impl, CASES[name]) < 1e-12


@pytest.mark.parametrize("gamma", [1, 5])
def test_drafts_that_cannot_be_accepted_leave_one_token_a_round(
    impl: Any, gamma: int
) -> None:
    sampling = Sampling(top_k=2)
    case = Case(V=3, gamma=gamma, sampling=sampling, drafter="disjoint", seed=44)

    def watch(done: Any) -> None:
        assert all(len(round.committed) == 1 for round in done.rounds)
        assert done.target_forwards == done.emitted and done.accepted == 0

    law = speculative_law(impl, case, watch)
    assert largest_difference(law, autoregressive_law(impl, case)) < 1e-12


def test_a_draft_that_is_the_target_is_never_refused(impl: Any) -> None:
    """A round is its drafts and a bonus; only rounding could say otherwise."""
    case = Case(V=2, gamma=2, n_new=5, drafter="itself", seed=45)
    target, prompt = case.target, torch.tensor(case.prompt)

    def run(chance: Randomness) -> list[int]:
        drafter = make_drafter(impl, case, target)
        done = impl.speculative.generate(target, drafter, prompt, 2, 5, chance)
        return [len(round.committed) for round in done.rounds]

    assert output_law(run)[3, 2] > 1 - 1e-12


# ------------------------------------------------------ what the gate must not let pass
#
# Mistakes of tests/mutants/, each with a request in which it moves the law. Those that
# only make a decode slower, or end it in an error, are for the parts' own tests.

PLAIN = Case(V=2, n_new=3, seed=50)
PENALIZED = replace(PLAIN, V=3, sampling=PENALTY)  # one token is not yet in the text
WITH_EOS = replace(PLAIN, eos_ids=(0,))
WITH_LATE_EOS = replace(WITH_EOS, sampling=LATE_EOS)
COPIED = Case(prompt=(0, 1, 0), drafter="ngram", seed=50)

WRONG: dict[str, Case] = {
    "ratio_forgets_the_draft": PLAIN,
    "ratio_in_bfloat16": PLAIN,
    "ratio_is_taken_one_row_late": PLAIN,
    "ratio_upside_down": PLAIN,
    "residual_is_a_softmax": PLAIN,
    "residual_is_the_absolute_difference": replace(PLAIN, V=3),
    "residual_is_the_target": PLAIN,
    "replacement_from_the_row_of_the_next_position": replace(PLAIN, V=3),
    "replacement_is_the_target_without_the_draft": replace(PLAIN, V=3),
    "the_replacement_is_drawn_twice": WITH_EOS,
    "the_refused_draft_is_committed": PLAIN,
    "bonus_from_the_row_before": replace(PLAIN, gamma=1),
    "a_bonus_of_id_0_is_no_token": PLAIN,
    "no_bonus_but_a_residual": PLAIN,
    "rollback_clears_what_it_keeps": replace(PLAIN, n_new=4),
    "rollback_keeps_the_last_row_of_the_block": replace(PLAIN, n_new=4),
    "rollback_moves_the_last_rows_to_the_front": replace(PLAIN, n_new=4),
    "verification_is_greedy": PLAIN,
    "verification_feeds_the_last_token_and_the_drafts_only": PLAIN,
    "verification_gives_every_row_the_whole_history": PENALIZED,
    "verification_ignores_the_sampling": PENALIZED,
    "verification_processes_the_bonus_row_only": PENALIZED,
    "penalty_counts_a_drafted_token_twice": PENALIZED,
    "penalty_sees_all_drafts": PENALIZED,
    "penalty_sees_no_drafts": PENALIZED,
    "the_rounds_forget_the_sampling": PENALIZED,
    "early_eos_is_forbidden_in_all_rows_or_none": WITH_LATE_EOS,
    "early_eos_is_forbidden_one_row_too_long": WITH_LATE_EOS,
    "eos_is_ignored_inside_a_block": WITH_EOS,
    "eos_of_id_0_is_no_eos": WITH_EOS,
    "the_budget_is_reached_before_the_eos": WITH_EOS,
    "the_eos_ids_are_not_passed_on": WITH_EOS,
    "draft_takes_the_argmax_and_declares_the_softmax": PLAIN,
    "draft_truncated_but_its_row_is_not": replace(
        PLAIN, draft_sampling=Sampling(top_k=1)
    ),
    "copied_tokens_with_soft_probabilities": COPIED,
}


@pytest.mark.parametrize("name", WRONG)
def test_the_gate_rejects(impl: Any, name: str) -> None:
    mistaken, case = graft_mutant(read(name)), WRONG[name]
    law = speculative_law(mistaken, case)
    assert largest_difference(law, autoregressive_law(impl, case)) > 1e-5


def test_without_a_mistake_these_requests_pass(impl: Any) -> None:
    for case in set(WRONG.values()):
        assert difference(impl, case) < 1e-12

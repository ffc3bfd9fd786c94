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
from minispec.kv_cache import KVCache
from minispec.randomness import Randomness
from minispec.sampling import Sampling
from minispec.stopping import FinishReason, Limits

from decoding import Stateless, next_row, tiny

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
# Each is one plausible mistake, put in the place of the function it replaces.

WRONG: dict[str, tuple[Callable[[Any], dict[str, Any]], Case]] = {}


def wrong(**changed: Any) -> Callable[[Callable[[Any], dict[str, Any]]], None]:
    """Register a mistake: a function from `impl.speculative` to what it replaces."""
    case = replace(Case(V=2, n_new=3, seed=50), **changed)

    def register(mistake: Callable[[Any], dict[str, Any]]) -> None:
        WRONG[mistake.__name__] = mistake, case

    return register


def verdict_of(count: int, token: int) -> Any:
    return type("Verdict", (), {"n_accepted": count, "next_token": token})


def reject_with(
    ratio: Callable[[Tensor, Tensor], Tensor],  # target, draft at the drafted tokens
    replacement: Callable[[Tensor, Tensor], Tensor],  # target row, draft row
    bonus: int = -1,  # the row
) -> Callable[..., Any]:
    def reject(tokens: Tensor, d: Tensor, t: Tensor, chance: Randomness) -> Any:
        at = tokens[:, None]
        ratios = ratio(t[:-1].gather(1, at)[:, 0], d.gather(1, at)[:, 0])
        count = chance.leading_accepts(ratios)
        bonus_row = t[max(len(t) + bonus, 0)]
        refused = count < len(tokens)
        row = replacement(t[count], d[count]) if refused else bonus_row
        return verdict_of(count, chance.sample(row))

    return reject


def right_ratio(t: Tensor, d: Tensor) -> Tensor:
    return t / d


def right_residual(t: Tensor, d: Tensor) -> Tensor:
    excess = (t - d).clamp(min=0)
    return excess / excess.sum() if excess.sum() else t


@wrong()
def residual_is_a_softmax(module: Any) -> dict[str, Any]:
    def softmax(t: Tensor, d: Tensor) -> Tensor:
        return (t - d).clamp(min=0).softmax(0)

    return {"reject": reject_with(right_ratio, softmax)}


@wrong()
def residual_is_the_target(module: Any) -> dict[str, Any]:
    return {"reject": reject_with(right_ratio, lambda t, d: t)}


@wrong()
def ratio_is_upside_down(module: Any) -> dict[str, Any]:
    return {"reject": reject_with(lambda t, d: d / t, right_residual)}


@wrong()
def ratio_forgets_the_draft(module: Any) -> dict[str, Any]:
    return {"reject": reject_with(lambda t, d: t, right_residual)}


@wrong(gamma=1)
def bonus_is_from_the_row_before(module: Any) -> dict[str, Any]:
    return {"reject": reject_with(right_ratio, right_residual, bonus=-2)}


@wrong(n_new=4)
def rollback_keeps_the_last_rows_not_the_first(module: Any) -> dict[str, Any]:
    def rollback(cache: KVCache, length: int) -> None:
        start = cache.length - length
        if start <= 0:
            return
        for rows in [*cache.keys, *cache.values]:
            rows[:, :, :length] = rows[:, :, start : cache.length].clone()
        cache.truncate(length)

    return {"rollback": rollback}


@wrong(n_new=4)
def rollback_keeps_a_refused_row(module: Any) -> dict[str, Any]:
    """The length is right; the last row kept is that of the last token drafted."""

    def rollback(cache: KVCache, length: int) -> None:
        if cache.length > length:
            for rows in [*cache.keys, *cache.values]:
                rows[:, :, length - 1] = rows[:, :, cache.length - 1]
            cache.truncate(length)

    return {"rollback": rollback}


@wrong(sampling=PENALTY)
def penalty_reaches_the_bonus_row_only(module: Any) -> dict[str, Any]:
    right = module.verify

    def verify(
        target: GPT, cache: KVCache, prefix: Tensor, tokens: Tensor, sampling: Sampling
    ) -> Tensor:
        rows = right(target, cache, prefix, tokens, sampling)
        cache.truncate(0)
        raw = right(target, cache, prefix, tokens, Sampling())
        return torch.cat([raw[:-1], rows[-1:]])

    return {"verify": verify}


@wrong(sampling=LATE_EOS, eos_ids=(0,), gamma=1)
def eos_is_forbidden_one_row_too_long(module: Any) -> dict[str, Any]:
    right = module.verify

    def verify(
        target: GPT, cache: KVCache, prefix: Tensor, tokens: Tensor, sampling: Sampling
    ) -> Tensor:
        later = replace(sampling, min_length=sampling.min_length + 1)
        return right(target, cache, prefix, tokens, later)

    return {"verify": verify}


class EosIgnoredInside(Limits):
    """Looks for an EOS at the end of a block only."""

    def cut(
        self, n: int, new: list[int]
    ) -> tuple[tuple[int, ...], FinishReason | None]:
        committed = tuple(new[: self.room(n)])
        if committed[-1] in self.eos_ids:
            return committed, "eos"
        ended = n + len(committed) == self.max_length
        return committed, self.reason if ended else None


class OneOverBudget(Limits):
    def cut(
        self, n: int, new: list[int]
    ) -> tuple[tuple[int, ...], FinishReason | None]:
        committed, reason = super().cut(n, new)
        if reason == self.reason:
            return (*committed, 0), reason
        return committed, reason


@wrong(eos_ids=(0,))
def eos_is_ignored_inside_a_block(module: Any) -> dict[str, Any]:
    return {"Limits": EosIgnoredInside}


@wrong()
def one_token_over_the_budget(module: Any) -> dict[str, Any]:
    return {"Limits": OneOverBudget}


@pytest.mark.parametrize("name", WRONG)
def test_the_gate_rejects(
    impl: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    mistake, case = WRONG[name]
    assert difference(impl, case) < 1e-12  # before
    for attribute, replacement in mistake(impl.speculative).items():
        monkeypatch.setattr(impl.speculative, attribute, replacement)
    assert difference(impl, case) > 1e-5


@pytest.mark.parametrize("seed", range(3))
def test_the_gate_rejects_a_greedy_draft_that_keeps_its_softmax(
    impl: Any, seed: int
) -> None:
    case = Case(gamma=1, seed=seed + 60)
    target, prompt = case.target, torch.tensor(case.prompt)

    class Liar(Stateless):
        def propose(self, prefix: Tensor, gamma: int, chance: Randomness) -> Any:
            rows = [self.row_after(prefix.tolist())] * gamma
            tokens = [int(row.argmax()) for row in rows]
            ids = torch.tensor(tokens, dtype=torch.long)
            probs = torch.stack(rows) if rows else torch.zeros(0, case.V)
            return impl.draft.Proposal(ids, probs)

    liar = Liar(lambda text: next_row(case.draft, Sampling(), text))

    def run(chance: Randomness) -> tuple[int, ...]:
        done = impl.speculative.generate(
            target, liar, prompt, case.gamma, case.n_new, chance
        )
        return (*done.tokens, REASONS[done.finish_reason])

    law = output_law(run)
    assert largest_difference(law, autoregressive_law(impl, case)) > 1e-3

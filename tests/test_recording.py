"""Watching changes nothing, and what was noted is what happened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from minispec.draft import Drafter, ModelDrafter
from minispec.drafters.ngram import NgramDrafter
from minispec.gpt2 import GPT
from minispec.randomness import Seeded
from minispec.sampling import Sampling
from minispec.generation import Generation, Round
from minispec.speculative import speculative_rounds
from minispec.stopping import Limits
from minispec.trace.recording import Lengths, Recorded, most_probable, record
from minispec.trace.speed import cost_ratios, speed_of

from decoding import next_row, tiny

V = 5
SAMPLINGS = [Sampling(), Sampling(temperature=0), Sampling(0.7, top_k=3)]


class Situation(NamedTuple):
    """Everything a decode is a function of."""

    target: GPT
    drafter: Drafter
    prompt: torch.Tensor
    gamma: int
    limits: Limits
    seed: int
    sampling: Sampling

    def recorded(self) -> list[Recorded]:
        return list(record(*self))

    def plain(self) -> list[Round]:
        chance = Seeded(self.seed)
        target, drafter, prompt, gamma, limits, _, sampling = self
        decode = speculative_rounds(
            target, drafter, prompt, gamma, limits, chance, sampling
        )
        return list(decode)

    def prefixes(self, rounds: list[Round]) -> Iterator[list[int]]:
        """The committed tokens before each round."""
        prefix = self.prompt.tolist()
        for round in rounds:
            yield prefix
            prefix = [*prefix, *round.committed]


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    target, draft = (tiny(V, draw(st.integers(0, 5)), 16) for _ in range(2))
    sampling = draw(st.sampled_from(SAMPLINGS))
    drafter = draw(
        st.sampled_from([ModelDrafter(draft, sampling), NgramDrafter(V, longest=2)])
    )
    ids = st.lists(st.integers(0, V - 1), min_size=1, max_size=4)
    prompt = torch.tensor(draw(ids))
    eos_ids = draw(st.sampled_from([(), (0,), (0, 1)]))
    limits = Limits.for_request(len(prompt), draw(st.integers(0, 14)), eos_ids, 16)
    seed = draw(st.integers(0, 999))
    return Situation(
        target, drafter, prompt, draw(st.integers(1, 5)), limits, seed, sampling
    )


@given(situations())
def test_the_recorded_decode_is_the_very_decode(situation: Situation) -> None:
    recorded = situation.recorded()
    assert [r.round for r in recorded] == situation.plain()


@given(situations())
def test_decisions_follow_from_the_draws_that_are_noted(situation: Situation) -> None:
    for recorded in situation.recorded():
        ratios, draws = recorded.ratios, recorded.draws
        drafted = recorded.round.drafted
        assert len(ratios) == len(drafted) >= len(draws)
        passed = [draw < ratio for draw, ratio in zip(draws, ratios)]
        assert all(passed[:-1])
        assert len(draws) == len(ratios) or not passed[-1]
        for one, ratio in zip(drafted, ratios):
            assert ratio == pytest.approx(one.target_prob / one.draft_prob)
        if recorded.round.extra:
            assert recorded.round.committed[-1] == recorded.last_token
            assert recorded.round.n_accepted == sum(passed)


@given(situations())
def test_the_last_row_is_the_residual_or_the_targets(situation: Situation) -> None:
    """Against rows from uncached passes over one sequence each."""
    rounds = situation.recorded()
    prefixes = situation.prefixes([r.round for r in rounds])
    for recorded, prefix in zip(rounds, prefixes):
        drafted = [one.token for one in recorded.round.drafted]
        n_accepted = sum(u < r for u, r in zip(recorded.draws, recorded.ratios))
        text = prefix + drafted[:n_accepted]
        expected = next_row(situation.target, situation.sampling, text)
        if n_accepted < len(drafted):
            if isinstance(situation.drafter, ModelDrafter):
                draft = situation.drafter.model
                row = next_row(draft, situation.sampling, text)
            else:
                row = torch.eye(V, dtype=torch.float64)[drafted[n_accepted]]
            excess = (expected - row).clamp(min=0)
            expected = excess / excess.sum()
        torch.testing.assert_close(
            recorded.last_row.double(), expected.double(), rtol=0, atol=1e-6
        )


@given(situations())
def test_cache_lengths_are_those_of_the_invariant(situation: Situation) -> None:
    """The target's cache reaches all drafts, and no cache keeps the last token."""
    rounds = situation.recorded()
    has_cache = isinstance(situation.drafter, ModelDrafter)
    previous = Lengths(0, 0 if has_cache else None)
    prefixes = situation.prefixes([r.round for r in rounds])
    for recorded, prefix in zip(rounds, prefixes):
        n, K = len(prefix), len(recorded.round.drafted)
        kept = n + len(recorded.round.committed) - 1
        assert recorded.before == previous
        assert (recorded.reached.target, recorded.after.target) == (n + K, kept)
        if has_cache:
            reached = n + K - 1 if K else recorded.before.draft
            assert recorded.reached.draft == reached
            assert recorded.after.draft == min(reached or 0, kept)
        else:
            assert recorded.reached.draft is recorded.after.draft is None
        previous = recorded.after


def test_seconds_are_those_of_the_drafter_and_of_the_whole_round() -> None:
    model = tiny(V, 0)
    limits = Limits.for_request(1, 12, (), 24)
    for recorded in record(model, ModelDrafter(model), torch.tensor([1]), 3, limits, 0):
        assert 0 < recorded.draft_seconds < recorded.seconds


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(1, 9))
def test_most_probable_are_sorted_and_have_mass(weights: list[int], n: int) -> None:
    row = torch.tensor(weights, dtype=torch.float64)
    shown = most_probable(row, n)
    expected = sorted((w for w in weights if w), reverse=True)[:n]
    assert [p for _, p in shown] == expected
    assert all(weights[t] == p for t, p in shown)


# ----------------------------------------------------------------------------- speed


def timed(recorded: Recorded, draft_seconds: float, seconds: float) -> Recorded:
    """The same with other times."""
    return replace(recorded, draft_seconds=draft_seconds, seconds=seconds)


def decode_of(n_tokens: int, gamma: int = 2) -> tuple[Generation, list[Recorded]]:
    """A model that drafts for itself, so that all is accepted; prompt pass dear."""
    model = tiny(V, 3)
    limits = Limits.for_request(1, n_tokens, (), 24)
    prompt = torch.tensor([1])
    rounds = list(record(model, ModelDrafter(model), prompt, gamma, limits, 0))
    rounds = [timed(r, 0.1 * len(r.ratios), 0.1 * len(r.ratios) + 1.5) for r in rounds]
    rounds[:1] = [timed(r, 5.0, 9.0) for r in rounds[:1]]
    plain = tuple(r.round for r in rounds)
    tokens = tuple(token for round in plain for token in round.committed)
    return Generation(tokens, "length", plain), rounds


def test_speed_is_the_formula_on_costs_and_the_clock_on_time() -> None:
    """12 tokens, all drafts kept: 4 rounds of 3 tokens, c = 0.1 and v = 1.5."""
    generation, rounds = decode_of(12)
    speed = speed_of(generation, rounds, [7.0] + 11 * [1.0])
    assert (speed.alpha, speed.cost_ratio) == (1, pytest.approx(0.1))
    assert speed.verify_cost == pytest.approx(1.5)
    assert speed.predicted == pytest.approx(3 / 1.7)
    assert speed.predicted_if_flat == pytest.approx(3 / 1.2)
    assert speed.tokens_per_s == pytest.approx(12 / (9 + 3 * 1.7))
    assert speed.target_alone_tokens_per_s == pytest.approx(12 / 18)
    assert speed.measured == pytest.approx(18 / (9 + 3 * 1.7))


def test_a_slow_first_step_is_in_no_cost() -> None:
    _, rounds = decode_of(12)
    assert cost_ratios(rounds, [1e9, 1.0, 1.0]) == pytest.approx((0.1, 1.5))


@pytest.mark.parametrize("n_tokens", [0, 1, 2])
def test_what_is_too_short_to_tell_is_none(n_tokens: int) -> None:
    generation, rounds = decode_of(n_tokens)
    speed = speed_of(generation, rounds, n_tokens * [1.0])
    assert speed.predicted is speed.cost_ratio is None
    assert (speed.measured is None) == (n_tokens == 0)

"""Watching changes nothing, and the notes are what happened; speed follows."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from minispec.core.draft import Drafter, ModelDrafter
from minispec.core.randomness import Seeded
from minispec.core.rounds import Generation, Round
from minispec.core.sampling import Sampling
from minispec.core.speculative import speculative_rounds
from minispec.core.text import Request
from minispec.drafters.early_exit import EarlyExit
from minispec.drafters.ngram import NgramDrafter
from minispec.model.gpt2 import GPT, GPTConfig
from minispec.judges import EXACT, LOSSY
from minispec.show.recording import Recorded, record
from minispec.show.speed import speed_of
from minispec.trees.drafters import FixedTrees
from minispec.trees.rounds import TreeRound
from minispec.trees.shape import from_widths
from minispec.trees.speculative import tree_rounds

from support.strategies import tiny_gpt

V = 5
SHAPE = GPTConfig(1, 2, 4, V, n_positions=16)
SAMPLINGS = [Sampling(), Sampling(0, eos_ids=(0,)), Sampling(0.7, 3, eos_ids=(0, 1))]
PROMPT = torch.tensor([2, 1, 2])
NONE = (0, None)


class Situation(NamedTuple):
    """Everything a decode is a function of."""

    target: GPT
    drafter: Drafter
    request: Request
    seed: int


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    target, draft = (tiny_gpt(SHAPE, draw(st.integers(0, 5))) for _ in range(2))
    sampling = draw(st.sampled_from(SAMPLINGS))
    drafters = [ModelDrafter(draft, sampling), NgramDrafter(V, longest=2)]
    ids = draw(st.lists(st.integers(0, V - 1), min_size=1, max_size=4))
    gamma, n_new = draw(st.integers(1, 5)), draw(st.integers(0, 14))
    judge = draw(st.sampled_from([*EXACT.values(), *LOSSY.values()]))
    request = Request(torch.tensor(ids), n_new, sampling, gamma, judge)
    drafter = draw(st.sampled_from(drafters))
    return Situation(target, drafter, request, draw(st.integers(0, 999)))


@given(situations())
def test_the_recorded_decode_is_the_very_decode(situation: Situation) -> None:
    *models, request, seed = situation
    recorded = [one for one, _ in record(*situation)]
    assert recorded == list(speculative_rounds(*models, request, Seeded(seed)))


def test_a_recorded_decode_of_trees_is_the_very_decode() -> None:
    target, draft = tiny_gpt(SHAPE, 1), tiny_gpt(SHAPE, 2)
    request, drafter = Request(PROMPT, 14), FixedTrees(draft, from_widths([2, 2]))
    recorded = [one for one, _ in record(target, drafter, request, 5)]
    assert recorded == list(tree_rounds(target, drafter, request, Seeded(5)))
    assert isinstance(recorded[0], TreeRound)


@pytest.mark.parametrize("n_lower", [1, 2])
def test_a_drafter_within_the_target_has_no_cache_of_its_own(n_lower: int) -> None:
    target = tiny_gpt(replace(SHAPE, n_layer=3), 1)
    head = EarlyExit(target.config, n_lower, 3).initialize(torch.Generator()).double()
    drafter = head.drafter(target)
    pairs = list(record(getattr(drafter, "target"), drafter, Request(PROMPT, 9), 5))
    assert [one for one, _ in pairs] == [
        one for one, _ in record(target, drafter, Request(PROMPT, 9), 5)
    ]
    assert all(facts.after[1] is None for _, facts in pairs)


@given(situations())
def test_cache_lengths_are_those_of_the_invariant(situation: Situation) -> None:
    """The target's cache reaches all drafts, and no cache keeps the last token."""
    has_cache = isinstance(situation.drafter, ModelDrafter)
    previous, n = (0, 0 if has_cache else None), len(situation.request.prompt)
    for one, facts in record(*situation):
        K, kept = len(one.tokens), n + len(one.committed) - 1
        assert facts.before == previous
        assert (facts.reached[0], facts.after[0]) == (n + K, kept)
        if has_cache:
            reached = n + K - 1 if K else facts.before[1]
            assert facts.reached[1] == reached
            assert facts.after[1] == min(reached or 0, kept)
        else:
            assert facts.reached[1] is facts.after[1] is None
        assert 0 < facts.draft_seconds < facts.seconds
        previous, n = facts.after, n + len(one.committed)


# ----------------------------------------------------------------------------- speed


def decode_of(n_tokens: int) -> tuple[Generation, list[Recorded]]:
    """Rounds of 3 tokens, all accepted: 0.1 s a draft, 1.5 s the rest; first 9 s."""
    sizes = [3] * (n_tokens // 3) + [n_tokens % 3] * (n_tokens % 3 > 0)
    rounds = [Round((0,) * (n - 1), n - 1, (0,) * n, None) for n in sizes]
    drafting = [0.1 * (n - 1) for n in sizes]
    notes = [Recorded((), 0, 0, NONE, NONE, NONE, s, s + 1.5) for s in drafting]
    notes[:1] = [replace(one, draft_seconds=5.0, seconds=9.0) for one in notes[:1]]
    return Generation(tuple(rounds)), notes


def test_speed_is_the_formula_on_costs_and_the_clock_on_time() -> None:
    """12 tokens, all drafts accepted: 4 rounds of 3 tokens, c = 0.1 and v = 1.5."""
    speed = speed_of(*decode_of(12), [7.0] + 11 * [1.0])
    assert (speed.alpha, speed.cost_ratio) == (1, pytest.approx(0.1))
    assert speed.verify_cost == pytest.approx(1.5)
    assert speed.predicted == pytest.approx(3 / 1.7)
    assert speed.predicted_if_flat == pytest.approx(3 / 1.2)
    assert speed.tokens_per_s == pytest.approx(12 / (9 + 3 * 1.7))
    assert speed.target_alone_tokens_per_s == pytest.approx(12 / 18)
    assert speed.measured == pytest.approx(18 / (9 + 3 * 1.7))
    slow_start = speed_of(*decode_of(12), [1e9, 1.0, 1.0])
    assert slow_start.verify_cost == pytest.approx(1.5)  # it is in no cost


@pytest.mark.parametrize("n_tokens", [0, 1, 2])
def test_a_decode_too_short_to_tell_has_no_prediction(n_tokens: int) -> None:
    speed = speed_of(*decode_of(n_tokens), n_tokens * [1.0])
    assert speed.predicted is speed.cost_ratio is None
    assert (speed.measured is None) == (n_tokens == 0)

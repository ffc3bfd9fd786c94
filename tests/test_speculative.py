"""One round, and the loop of rounds: what is committed, reported and remembered."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Sequence
from itertools import islice, zip_longest
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from minispec.randomness import Seeded
from minispec.sampling import Sampling
from minispec.stopping import Limits

from decoding import (
    Fixed,
    Scripted,
    Stateless,
    assert_holds,
    next_row,
    poison,
    prefilled,
    same,
    samplings,
    spy_on_caches,
    spy_on_feeding,
    tiny,
)
from strategies import SEEDS

V = 4
WARM = Sampling(temperature=0.8)  # the target's, where the draft's is another
DRAFTERS = ["model", "ngram", "short", "mute"]


def make_drafter(impl: Any, kind: str, seed: int = 7, context: int = 24) -> Any:
    """Two real ones, one that gives less than it is asked for, and one that is mute."""
    if kind == "model":
        return impl.draft.ModelDrafter(tiny(V, seed + 1000, context))
    if kind == "ngram":
        return impl.drafters.ngram.NgramDrafter(V, longest=2)
    return Fixed([0, 1, 2, 3] * 8, V, at_most=2 if kind == "short" else 0)


def limits_of(
    n: int, n_new: int, eos_ids: Collection[int] = (), context: int = 24
) -> Limits:
    return Limits.for_request(n, n_new, eos_ids, context)


# ----------------------------------------------------------------------- one round


@pytest.mark.exercise10
@pytest.mark.parametrize("seen", [0, 2])
@pytest.mark.parametrize("gamma", [1, 2, 4])
def test_a_round_for_every_count_of_acceptances(
    impl: Any, gamma: int, seen: int
) -> None:
    """Committed, drawn from the right row, described, and both caches in order."""
    target = tiny(V, 1, n_layer=2)
    prefix = torch.tensor([2, 0, 3])
    limits = limits_of(3, 20)
    for count in range(gamma + 1):
        drafter = make_drafter(impl, "model")
        cache = prefilled(target, prefix[:seen])
        chance = Scripted(counts=[count], seed=count)
        round = impl.speculative.speculative_round(
            target, cache, drafter, prefix, gamma, limits, chance, WARM
        )
        drafts = [drafted.token for drafted in round.drafted]
        assert len(drafts) == gamma
        assert round.committed[:count] == tuple(drafts[:count])
        assert len(round.committed) == count + 1
        assert round.finish_reason is None
        assert round.n_accepted == count
        assert round.extra == ("bonus" if count == gamma else "resampled")

        text = prefix.tolist()
        paths = [text + drafts[:i] for i in range(gamma + 1)]
        d = [next_row(drafter.model, Sampling(), path) for path in paths[:-1]]
        t = [next_row(target, WARM, path) for path in paths]
        ratios = [t[i][x] / d[i][x] for i, x in enumerate(drafts)]
        torch.testing.assert_close(chance.ratios[0], torch.stack(ratios))
        assert len(chance.ratios) == 1 and len(chance.rows) == gamma + 1
        last = t[count] if count == gamma else excess(t[count], d[count])
        same(chance.rows[-1], last)

        fates = ["accepted"] * count + ["refused"] + ["unread"] * gamma
        for i, drafted in enumerate(round.drafted):
            x = drafts[i]
            assert (drafted.token, drafted.fate) == (x, fates[i])
            assert drafted.target_prob == pytest.approx(float(t[i][x]), abs=1e-12)
            assert drafted.draft_prob == pytest.approx(float(d[i][x]), abs=1e-12)

        text += round.committed
        assert cache.length == len(text) - 1
        assert drafter.cache.length == min(len(text) - 1, 3 + gamma - 1)
        assert_holds(cache, target, text)
        assert_holds(drafter.cache, drafter.model, text)


@pytest.mark.parametrize(
    "tokens, V_drafted, says",
    [([0, 1, 3], V, "for 2 tokens at most, it gave 3"), ([0, V], V + 1, "share a")],
)
def test_a_drafter_that_breaks_its_contract_is_told_so(
    impl: Any, tokens: list[int], V_drafted: int, says: str
) -> None:
    """By the round, before the target sees the tokens."""

    class Careless(Fixed):
        def propose(self, *_: Any) -> Any:
            return impl.draft.Proposal.certain(torch.tensor(tokens), V_drafted)

    target, prefix = tiny(V, 1), torch.tensor([2, 0, 3])
    cache, drafter = target.new_cache(), Careless([], V)
    with pytest.raises(ValueError, match=says):
        impl.speculative.speculative_round(
            target, cache, drafter, prefix, 2, limits_of(3, 9), Scripted(), WARM
        )
    assert cache.length == 0


@given(
    tokens=st.lists(st.integers(-1, 5), max_size=4),
    gamma=st.integers(0, 4),
    V=st.integers(1, 5),
)
def test_a_proposal_is_refused_exactly_where_the_target_cannot_use_it(
    impl: Any, tokens: list[int], gamma: int, V: int
) -> None:
    ids = torch.tensor(tokens, dtype=torch.long)
    proposal = impl.draft.Proposal(ids, torch.full((len(tokens), V), 1 / V))
    strangers = [token for token in tokens if token not in range(V)]
    if len(tokens) > gamma:
        with pytest.raises(ValueError, match=f"{gamma} tokens at most, it gave"):
            impl.draft.check_proposal(proposal, gamma, V)
    elif strangers:
        says = re.escape(f"below {V}, got {strangers}: do the drafter and the target")
        with pytest.raises(ValueError, match=says):
            impl.draft.check_proposal(proposal, gamma, V)
    else:
        impl.draft.check_proposal(proposal, gamma, V)


@pytest.mark.parametrize("mass", [0.0, 0.9, 1.1, 2.0])
def test_a_proposal_of_rows_that_are_no_laws_is_refused(impl: Any, mass: float) -> None:
    """One of them is enough. What rounding does to a row is none of this."""
    rows = torch.full((3, 4), 0.25)
    rows[1] *= mass
    proposal = impl.draft.Proposal(torch.tensor([0, 1, 2]), rows)
    with pytest.raises(ValueError, match="must sum to 1, got .*, 1.0.$"):
        impl.draft.check_proposal(proposal, 3, 4)
    rows[1] = 0.25 + 1e-5
    impl.draft.check_proposal(proposal, 3, 4)


NO_PROMPTS: dict[str, tuple[Any, str]] = {
    "a list": ([0, 1], "a tensor of ids, .* got .0, 1."),
    "a text": ("text", "a tensor of ids, .* got 'text'"),
    "a batch": (torch.tensor([[0, 1]]), "a tensor of ids"),
    "a number": (torch.tensor(1), "a tensor of ids"),
    "floats": (torch.tensor([0.0, 1.0]), "a tensor of ids"),
    "strangers": (torch.tensor([0, V, -1]), r"below 4, got \[4, -1\]: was it encoded"),
}


@pytest.mark.parametrize("decoder", ["speculative", "autoregressive"])
@pytest.mark.parametrize("prompt, says", NO_PROMPTS.values(), ids=NO_PROMPTS)
def test_a_prompt_that_is_none_is_refused(
    impl: Any, decoder: str, prompt: Any, says: str
) -> None:
    drafter = {"speculative": [make_drafter(impl, "model"), prompt, 2]}
    between = drafter.get(decoder, [prompt])
    with pytest.raises(ValueError, match=says):
        getattr(impl, decoder).generate(tiny(V, 1), *between, 5, Seeded(0))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_ids_of_either_width_are_a_prompt(impl: Any, dtype: torch.dtype) -> None:
    impl.stopping.check_prompt(torch.tensor([0, V - 1], dtype=dtype), V)
    impl.stopping.check_prompt(torch.tensor([], dtype=dtype), V)  # the limits say more


def excess(t: Tensor, d: Tensor) -> Tensor:
    """Where the target wants more than the draft gave, as shares of the whole."""
    wanted = [max(0.0, a - b) for a, b in zip(t.tolist(), d.tolist())]
    return torch.tensor([share / sum(wanted) for share in wanted], dtype=torch.float64)


@pytest.mark.exercise10
@given(data=st.data(), gamma=st.integers(0, 4), eos_ids=st.sets(st.integers(0, 3)))
def test_a_round_that_ends_the_text(
    impl: Any, data: Any, gamma: int, eos_ids: set[int]
) -> None:
    """EOS drafted at any index, as bonus or resampled; the budget anywhere; id 0."""
    tokens = st.integers(0, V - 1)
    drafts = data.draw(st.lists(tokens, min_size=gamma, max_size=gamma), label="drafts")
    count = data.draw(st.integers(0, gamma), label="accepted")
    extra = data.draw(tokens, label="extra")
    room = data.draw(st.integers(1, gamma + 2), label="room")

    target, prefix = tiny(V, 3), torch.tensor([1, 2])
    drafter, cache = Fixed([1, 2, *drafts], V), target.new_cache()
    round = impl.speculative.speculative_round(
        target,
        cache,
        drafter,
        prefix,
        gamma,
        limits_of(2, room, eos_ids),
        Scripted([extra], [count]),
        WARM,
    )
    whole = [*drafts[:count], extra]
    committed, reason = naive_cut(whole, room, eos_ids)
    assert (list(round.committed), round.finish_reason) == (committed, reason)

    n_accepted = min(count, len(committed))
    assert round.n_accepted == n_accepted
    complete = len(committed) == len(whole)  # nothing was cut
    for i, drafted in enumerate(round.drafted):
        refused = i == count and complete
        expected = "accepted" if i < n_accepted else "refused" if refused else "unread"
        assert drafted.fate == expected
        assert drafted.token == drafts[i]
    kind = "bonus" if count == gamma else "resampled"
    assert round.extra == (kind if complete else None)
    assert cache.length == 2 + len(committed) - 1 == drafter.rollbacks[-1]
    assert_holds(cache, target, [1, 2, *committed])


def naive_cut(
    new: Sequence[int], room: int, eos_ids: Collection[int]
) -> tuple[list[int], str | None]:
    """Token by token, as a decoder that writes one at a time would end."""
    text: list[int] = []
    for token in new:
        text.append(token)
        if token in eos_ids:
            return text, "eos"
        if len(text) == room:
            return text, "length"
    return text, None


@pytest.mark.exercise10
def test_a_round_without_drafts_is_a_plain_target_step(impl: Any) -> None:
    target, chance = tiny(V, 5), Scripted()
    cache = target.new_cache()
    round = impl.speculative.speculative_round(
        target,
        cache,
        make_drafter(impl, "mute"),
        torch.tensor([3, 0, 0]),
        3,
        limits_of(3, 9),
        chance,
        WARM,
    )
    assert round.drafted == () and len(round.committed) == 1
    assert round.extra == "bonus" and cache.length == 3
    same(chance.rows[-1], next_row(target, WARM, [3, 0, 0]))


def test_no_drafts_lie_where_the_prefix_lies(impl: Any) -> None:
    """The device `meta` has shapes and no numbers: every machine has it."""
    prefix = torch.tensor([1, 2], device="meta")
    drafter = make_drafter(impl, "model", context=1)  # too short for a draft
    proposal = drafter.propose(prefix, 4, Scripted())
    assert proposal.tokens.device == proposal.draft_probs.device == prefix.device
    assert proposal.draft_probs.shape == (0, V)


# ------------------------------------------------------------------ the loop: caches


@pytest.mark.exercise11
@given(
    seed=SEEDS,
    gamma=st.integers(1, 4),
    sampling=samplings(V),
    draft_context=st.sampled_from([24, 9, 4]),
    n=st.integers(1, 6),
    n_new=st.integers(1, 12),
    counts=st.lists(st.integers(0, 4), max_size=6),
)
def test_after_every_round_every_cache_is_a_fresh_prefill_of_the_text(
    impl: Any,
    seed: int,
    gamma: int,
    sampling: Sampling,
    draft_context: int,
    n: int,
    n_new: int,
    counts: list[int],
) -> None:
    """With NaN in every free slot, and any pattern of acceptances."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        target = tiny(V, seed, n_layer=2)
        caches = spy_on_caches(monkeypatch, target)
        drafter = make_drafter(impl, "model", seed, draft_context)
        poison(drafter.cache)
        chance = Scripted(counts=counts, seed=seed)
        text = [i % V for i in range(n)]
        rounds = impl.speculative.speculative_rounds(
            target,
            drafter,
            torch.tensor(text),
            gamma,
            limits_of(n, n_new),
            chance,
            sampling,
        )
        for round in rounds:
            assert len(round.drafted) <= min(gamma, n + n_new - len(text) - 1)
            text += round.committed
            (cache,) = caches
            assert cache.length == len(text) - 1
            assert drafter.cache.length <= len(text) - 1
            assert_holds(cache, target, text)
            assert_holds(drafter.cache, drafter.model, text)
            poison(cache)
            poison(drafter.cache)
        assert len(text) == n + n_new


@pytest.mark.parametrize("n_new, capacity", [(4, 7), (99, 24)])
def test_the_targets_cache_has_room_for_the_text_and_no_more(
    impl: Any, monkeypatch: pytest.MonkeyPatch, n_new: int, capacity: int
) -> None:
    target = tiny(V, 2, n_positions=24)
    caches = spy_on_caches(monkeypatch, target)
    drafter, prompt = make_drafter(impl, "ngram"), torch.tensor([1, 2, 1])
    impl.speculative.generate(target, drafter, prompt, 2, n_new, Seeded(0))
    assert [cache.capacity for cache in caches] == [capacity]


def test_no_gradients_are_recorded_of_a_model_in_training(
    impl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that kept the graph would keep every round's memory with it."""
    target, draft = (tiny(V, seed).requires_grad_(True) for seed in (1, 2))
    caches = spy_on_caches(monkeypatch, target, draft)
    drafter = impl.draft.ModelDrafter(draft)
    impl.speculative.generate(target, drafter, torch.tensor([1]), 3, 9, Seeded(0))
    assert len(caches) == 2
    for cache in caches:
        assert not any(rows.requires_grad for rows in cache.keys + cache.values)


@pytest.mark.exercise11
def test_each_round_is_one_pass_over_what_the_target_has_not_seen(
    impl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tiny(V, 2)
    fed = spy_on_feeding(monkeypatch, target)
    drafter = make_drafter(impl, "model")
    draft_fed = spy_on_feeding(monkeypatch, drafter.model)
    chance = Scripted(counts=[3, 0, 1, 3, 2])
    done = impl.speculative.generate(
        target, drafter, torch.tensor([1, 2]), 3, 15, chance, WARM
    )
    assert [len(round.committed) for round in done.rounds] == [4, 1, 2, 4, 3, 1]
    assert fed == [5, 4, 4, 4, 4, 1]
    # Two in the round after one that kept everything, and in no other.
    assert draft_fed == [2, 1, 1] + [2, 1, 1] + [1, 1, 1] + [1, 1, 1] + [2, 1, 1]


@pytest.mark.exercise11
def test_a_drafter_is_told_lengths_and_first_to_forget_all(impl: Any) -> None:
    drafter = make_drafter(impl, "short")
    text = 3
    done = impl.speculative.generate(
        tiny(V, 1), drafter, torch.tensor([0, 1, 2]), 4, 10, Seeded(0), WARM
    )
    expected = [0]
    for round in done.rounds:
        text += len(round.committed)
        expected.append(text - 1)
    assert drafter.rollbacks == expected
    assert max(len(round.drafted) for round in done.rounds) == 2


# ----------------------------------------------------------------- the loop: endings


@pytest.mark.exercise11
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_the_budget_is_met_exactly(impl: Any, gamma: int, drafter: str) -> None:
    target, prompt = tiny(V, 4), torch.tensor([0, 1, 0])
    for n_new in range(2 * gamma + 4):
        done = impl.speculative.generate(
            target, make_drafter(impl, drafter), prompt, gamma, n_new, Seeded(n_new)
        )
        assert done.emitted == len(done.tokens) == n_new
        assert done.finish_reason == "length"
        assert (done.target_forwards == 0) == (n_new == 0)
        left = n_new
        for round in done.rounds:
            assert len(round.drafted) <= min(gamma, left - 1)
            left -= len(round.committed)


@pytest.mark.exercise11
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize(
    "n, context", [(1, 1), (3, 3), (1, 2), (3, 4), (2, 7), (2, 12)]
)
def test_the_context_is_filled_to_its_last_position(
    impl: Any, n: int, context: int, drafter: str
) -> None:
    target = tiny(V, 6, context)
    prompt = torch.arange(n) % V
    for n_new, reason in [(99, "context"), (context - n + 1, "context")]:
        done = impl.speculative.generate(
            target, make_drafter(impl, drafter), prompt, 3, n_new, Seeded(1)
        )
        assert n + done.emitted == context and done.finish_reason == reason
    exact = impl.speculative.generate(
        target, make_drafter(impl, drafter), prompt, 3, context - n, Seeded(1)
    )
    assert exact.emitted == context - n and exact.finish_reason == "length"


@pytest.mark.exercise11
@given(
    seed=SEEDS,
    drafter=st.sampled_from(DRAFTERS),
    gamma=st.integers(1, 5),
    eos_ids=st.sets(st.integers(0, V), max_size=2),  # V itself: an id that never comes
    n_new=st.integers(0, 14),
)
def test_an_eos_cuts_the_text_that_would_be_written_without_it(
    impl: Any, seed: int, drafter: str, gamma: int, eos_ids: set[int], n_new: int
) -> None:
    """The earliest position of any EOS wins, and the EOS itself is kept."""
    target, prompt = tiny(V, seed), torch.tensor([1, 0, 1])

    def written(eos: Collection[int]) -> Any:
        return impl.speculative.generate(
            target,
            make_drafter(impl, drafter, seed),
            prompt,
            gamma,
            n_new,
            Seeded(seed),
            eos_ids=eos,
        )

    whole, done = written(()), written(eos_ids)
    assert whole.emitted == n_new and whole.finish_reason == "length"
    ends = [i for i, token in enumerate(whole.tokens) if token in eos_ids]
    if ends:
        assert done.tokens == whole.tokens[: ends[0] + 1]
        assert done.finish_reason == "eos"
    else:
        assert done == whole


@pytest.mark.exercise11
@pytest.mark.parametrize("eos_ids", [(2,), [2, 0], {0, 2}, frozenset({2})])
def test_an_eos_in_the_prompt_ends_nothing(impl: Any, eos_ids: Any) -> None:
    sampling = Sampling(min_length=99, eos_ids=tuple(eos_ids))
    done = impl.speculative.generate(
        tiny(V, 3),
        make_drafter(impl, "ngram"),
        torch.tensor([0, 2]),
        2,
        6,
        Seeded(0),
        sampling,
        eos_ids,
    )
    assert done.emitted == 6 and not set(done.tokens) & set(eos_ids)


# ------------------------------------------------------- the loop: what is told of it


@pytest.mark.exercise11
@given(
    seed=SEEDS,
    drafter=st.sampled_from(DRAFTERS),
    gamma=st.integers(1, 4),
    sampling=samplings(V),
    draft_sampling=samplings(V),
    n_new=st.integers(0, 10),
)
def test_what_is_told_is_what_happened(
    impl: Any,
    seed: int,
    drafter: str,
    gamma: int,
    sampling: Sampling,
    draft_sampling: Sampling,
    n_new: int,
) -> None:
    """Probabilities recomputed from scratch; counts that add up; fates that fit."""
    target, prompt = tiny(V, seed), [0, 1, 2, 0]
    drafting = make_drafter(impl, drafter, seed)
    if drafter == "model":
        drafting = impl.draft.ModelDrafter(drafting.model, draft_sampling)
    ids, chance = torch.tensor(prompt), Seeded(seed)
    done = impl.speculative.generate(
        target, drafting, ids, gamma, n_new, chance, sampling, (3,)
    )
    text, judged = list(prompt), 0
    for round in done.rounds:
        drafts = [drafted.token for drafted in round.drafted]
        for i, drafted in enumerate(round.drafted):
            before, x = text + drafts[:i], drafted.token
            wanted = float(next_row(target, sampling, before)[x])
            assert drafted.target_prob == pytest.approx(wanted, abs=1e-12)
            given_ = 1.0
            if drafter == "model":
                given_ = float(next_row(drafting.model, draft_sampling, before)[x])
            assert drafted.draft_prob == pytest.approx(given_, abs=1e-12)
        fates = "".join(drafted.fate[0] for drafted in round.drafted)  # a, r, u
        k = round.n_accepted
        assert re.fullmatch("a*r?u*", fates) and fates.count("a") == k
        if "r" not in fates and "u" in fates:
            assert round.finish_reason == "eos" and round.committed[-1] == 3
        assert round.committed[:k] == tuple(drafts[:k])
        assert len(round.committed) == k + (round.extra is not None) > 0
        if round.extra is not None:
            assert (round.extra == "resampled") == ("r" in fates)
        text += round.committed
        judged += k + ("r" in fates)
    assert text == prompt + list(done.tokens)

    assert done.emitted == len(done.tokens)
    assert done.drafted == sum(len(r.drafted) for r in done.rounds)
    assert done.accepted == sum(r.n_accepted for r in done.rounds) <= done.drafted
    assert done.target_forwards == len(done.rounds)
    extras = sum(r.extra is not None for r in done.rounds)
    assert done.emitted == done.accepted + extras
    rate = done.accepted / judged if judged else None
    assert (done.judged, done.acceptance_rate) == (judged, rate)
    per_pass = done.emitted / len(done.rounds) if done.rounds else None
    assert done.tokens_per_target_forward == per_pass
    reasons = [round.finish_reason for round in done.rounds]
    if reasons:
        assert reasons == [None] * (len(reasons) - 1) + [done.finish_reason]


@pytest.mark.exercise11
def test_rates_at_the_edges(impl: Any) -> None:
    """Nothing drafted, all accepted, none accepted: no division by zero anywhere."""
    target, prompt = tiny(V, 8), torch.tensor([1])

    def done(drafter: Any, n_new: int, sampling: Sampling = Sampling()) -> Any:
        return impl.speculative.generate(
            target, drafter, prompt, 3, n_new, Seeded(2), sampling
        )

    itself = impl.draft.ModelDrafter(target)
    assert done(itself, 0).acceptance_rate is None
    assert done(itself, 0).tokens_per_target_forward is None
    assert done(itself, 1).acceptance_rate is None  # one token: nothing to draft
    assert done(itself, 1).tokens_per_target_forward == 1
    assert done(make_drafter(impl, "mute"), 9).acceptance_rate is None
    assert done(itself, 16).acceptance_rate == 1
    assert done(itself, 16).tokens_per_target_forward == 4


@pytest.mark.exercise11
@pytest.mark.parametrize("gamma", [1, 5])
def test_a_drafter_of_disjoint_support_still_leaves_a_token_a_round(
    impl: Any, gamma: int
) -> None:
    target, sampling = tiny(V, 9), Sampling(top_k=2)

    def never(text: list[int]) -> Tensor:
        row = (next_row(target, sampling, text) == 0).to(torch.float64)
        return row / row.sum()

    done = impl.speculative.generate(
        target, Stateless(never), torch.tensor([0]), gamma, 9, Seeded(3), sampling
    )
    assert [len(round.committed) for round in done.rounds] == [1] * 9
    assert done.acceptance_rate == 0
    assert all(round.extra == "resampled" for round in done.rounds[:-1])


# ---------------------------------------------------- the loop: streams, their state


def streamed(impl: Any, drafter: Any, seed: int, n_new: int = 12) -> Any:
    return impl.speculative.speculative_rounds(
        tiny(V, 11),
        drafter,
        torch.tensor([2, 1, 2]),
        3,
        limits_of(3, n_new, (0,)),
        Seeded(seed),
        WARM,
    )


def test_the_streams_sampling_may_be_left_out(impl: Any) -> None:
    """It is then the model's own softmax, as in `generate`."""
    target, prompt = tiny(V, 11), torch.tensor([2, 1, 2])

    def stream(*sampling: Sampling) -> Any:
        drafter, limits = make_drafter(impl, "model"), limits_of(3, 12)
        rounds = impl.speculative.speculative_rounds
        yield from rounds(target, drafter, prompt, 3, limits, Seeded(1), *sampling)

    assert list(stream()) == list(stream(Sampling()))


@pytest.mark.exercise11
@pytest.mark.parametrize("kind", DRAFTERS)
def test_the_stream_is_the_text(impl: Any, kind: str) -> None:
    for seed in range(6):
        whole = impl.speculative.generate(
            tiny(V, 11),
            make_drafter(impl, kind),
            torch.tensor([2, 1, 2]),
            3,
            12,
            Seeded(seed),
            WARM,
            (0,),
        )
        rounds = tuple(streamed(impl, make_drafter(impl, kind), seed))
        assert rounds == whole.rounds
        assert sum((r.committed for r in rounds), ()) == whole.tokens


@pytest.mark.exercise11
def test_no_round_runs_before_it_is_asked_for(
    impl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tiny(V, 2)
    fed = spy_on_feeding(monkeypatch, target)
    drafter = make_drafter(impl, "model")
    rounds = impl.speculative.speculative_rounds(
        target, drafter, torch.tensor([1]), 2, limits_of(1, 20), Seeded(0)
    )
    assert fed == []
    for n_rounds in (1, 2, 3):
        next(rounds)
        assert len(fed) == n_rounds


@pytest.mark.exercise11
@pytest.mark.parametrize("kind", DRAFTERS)
def test_a_drafter_carries_nothing_from_one_text_to_the_next(
    impl: Any, kind: str
) -> None:
    """Even where the first text was left in the middle of it."""
    fresh = [tuple(streamed(impl, make_drafter(impl, kind), seed)) for seed in range(4)]
    reused = make_drafter(impl, kind)
    assert [tuple(streamed(impl, reused, seed)) for seed in range(4)] == fresh
    other = tiny(V, 12), reused, torch.tensor([0, 3, 1, 1]), 3, limits_of(4, 20)
    list(islice(impl.speculative.speculative_rounds(*other, Seeded(5)), 2))
    assert tuple(streamed(impl, reused, 1)) == fresh[1]


@pytest.mark.exercise11
@pytest.mark.parametrize("kind", DRAFTERS)
def test_interleaved_streams_do_not_disturb_each_other(impl: Any, kind: str) -> None:
    alone = [tuple(streamed(impl, make_drafter(impl, kind), seed)) for seed in (1, 2)]
    both = [streamed(impl, make_drafter(impl, kind), seed) for seed in (1, 2)]
    first, second = zip(*zip_longest(*both))
    mixed = [tuple(r for r in rounds if r is not None) for rounds in (first, second)]
    assert mixed == alone


def numpy_state() -> Any:
    return np.random.get_state(legacy=False)["state"]["key"].copy()


@pytest.mark.exercise11
def test_chance_is_the_seeds_alone(impl: Any) -> None:
    target, prompt = tiny(V, 3), torch.tensor([3])

    def text(seed: int) -> Any:
        drafter = make_drafter(impl, "model")
        return impl.speculative.generate(target, drafter, prompt, 3, 14, Seeded(seed))

    states = torch.get_rng_state(), random.getstate(), numpy_state()
    assert text(7) == text(7)
    assert len({text(seed).tokens for seed in range(8)}) == 8
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.array_equal(numpy_state(), states[2])
    assert prompt.tolist() == [3]


# --------------------------------------------------------------------------- refusals


@pytest.mark.exercise11
@pytest.mark.parametrize(
    "n, gamma, n_new, said",
    [
        (2, 0, 4, "gamma must be at least 1, got 0"),
        (2, -1, 4, "gamma must be at least 1, got -1"),
        (2, 0, 0, "gamma must be at least 1, got 0"),
        (0, 2, 4, "prompt is empty"),
        (7, 2, 4, "prompt has 7 tokens and the target's context holds 6"),
        (2, 2, -1, "max_new_tokens must be 0 or more, got -1"),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    impl: Any, n: int, gamma: int, n_new: int, said: str
) -> None:
    target, prompt = tiny(V, 0, n_positions=6), torch.zeros(n, dtype=torch.long)
    with pytest.raises(ValueError, match=said):
        impl.speculative.generate(
            target, make_drafter(impl, "model"), prompt, gamma, n_new, Seeded(0)
        )

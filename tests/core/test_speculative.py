"""One round, and the loop of rounds: what is committed, reported and remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import example, given, settings
from torch import Tensor

from minispec import ModelDrafter, Request, Round, Sampling, Seeded, generate
from minispec.core.rejection import Verdict
from minispec.core.speculative import speculative_round, speculative_rounds
from minispec.core.text import Text

from support.checks import agree
from support.decoding import (
    DRAFTERS, Fixed, Scripted, assert_holds, make_drafter, next_row, poison,
    spy_on_caches, spy_on_feeding, tiny
)
from support.strategies import SEEDS, id_sequences, samplings

V, TOKENS = 4, st.integers(0, 3)
WARM = Sampling(temperature=0.8)  # the target's, where the draft's is another
PROMPT = torch.tensor([2, 1, 2])
SEVERAL = pytest.mark.parametrize("kind", DRAFTERS)


def begun(request: Request, drafter: Any, seen: int = 0) -> tuple[Any, Text]:
    """A target and a text of which it has seen `seen` tokens, with NaN beyond them."""
    target = tiny(V, 1, n_layer=2)
    text = Text(request, target)
    drafter.begin(text.cache)
    if seen:
        target(text.prefix[None, :seen], text.cache)
    poison(text.cache)
    return target, text


def rows_after(model: Any, sampling: Sampling, text: list[int], n: int) -> Tensor:
    """The model's rows after text[: -n], text[: -n + 1], ... and all of it."""
    ends = range(len(text) - n, len(text) + 1)
    return torch.stack([next_row(model, sampling, text[:end]) for end in ends])


# ----------------------------------------------------------------------- one round


@pytest.mark.exercise10
@pytest.mark.parametrize("seen", [0, 2])
@pytest.mark.parametrize("gamma, n", [(g, n) for g in (1, 3) for n in range(g + 1)])
def test_a_round_for_every_count_of_accepted_drafts(
    monkeypatch: pytest.MonkeyPatch, gamma: int, n: int, seen: int
) -> None:
    """Committed, drawn from the right row, reported, and both caches in order."""
    drafter = make_drafter("model")
    target, text = begun(Request(PROMPT, 20, WARM), drafter, seen)
    chance = Scripted(accepts=[*[True] * n, False], seed=n)
    fed = spy_on_feeding(monkeypatch, target)
    done = speculative_round(target, drafter, text, gamma, chance)

    what: Any = {"gamma": gamma, "accepted": n, "drafted": done.tokens}
    agree(len(fed), 1, "A round is one pass of the target.", **what)
    agree(len(done.tokens), gamma, "The round reports the tokens drafted.", **what)
    agree(done.rows is None, False, "The round reports both rows.", **what)
    d, t = done.rows or ((), ())
    broke = "There is a draft's row for each draft, and one more of the target's."
    agree((len(d), len(t)), (gamma, gamma + 1), broke, **what)
    broke = "Each draft is drawn once, and one token more; up to n + 1 are judged."
    asked = len(chance.rows), len(chance.chances)
    agree(asked, (gamma + 1, min(n + 1, gamma)), broke, **what)
    own = rows_after(target, WARM, [*PROMPT.tolist(), *done.tokens], gamma)
    agree(t, own, "The target's rows are not what it says after each draft.", **what)
    excess = (t[n] - d[n]).clamp(min=0) if n < gamma else t[n]
    broke = "The token after the accepted drafts comes from another row."
    agree(chance.rows[-1], excess / excess.sum(), broke, **what)
    kept, extra = done.committed[:n], "bonus" if n == gamma else "resampled"
    broke = "The round commits the accepted drafts and one token more."
    agree((kept, len(done.committed)), (done.tokens[:n], n + 1), broke, **what)
    report = done.n_accepted, done.finish_reason, done.extra
    agree(report, (n, None, extra), "The round reports something else.", **what)
    committed = [*PROMPT.tolist(), *done.committed]
    agree(text.prefix.tolist(), committed, "The text is another.", **what)
    broke = "Both caches are rolled back to the text without its last token."
    lengths = text.cache.length, drafter.cache.length
    agree(lengths, (n + 3, min(n + 3, gamma + 2)), broke, **what)
    assert_holds(text.cache, target, committed)
    assert_holds(drafter.cache, drafter.model, committed)


@pytest.mark.exercise10
@settings(max_examples=100)
@given(
    id_sequences(V, 0, 4), st.integers(0, 4), TOKENS, st.integers(1, 6), st.sets(TOKENS)
)
@example([0, 1, 2], 3, 1, 6, {0})
def test_a_round_that_ends_the_text(
    drafts: list[int], n: int, extra: int, room: int, eos_ids: set[int]
) -> None:
    """EOS drafted at any index, as bonus or resampled; the budget anywhere; id 0."""
    drafts = drafts[: room - 1]  # as the loop does
    K, n = len(drafts), min(n, len(drafts))
    drafter = Fixed([2, 1, 2, *drafts], V)
    target, text = begun(Request(PROMPT, room, Sampling(eos_ids=eos_ids)), drafter)
    chance = Scripted([extra], [*[True] * n, False])
    done = speculative_round(target, drafter, text, K, chance)

    whole = [*drafts[:n], extra]
    committed, reason = text.limits.cut(3, whole)
    what: Any = {"drafts": drafts, "accepted": n, "extra": extra}
    what["limits"] = text.limits
    broke = "The accepted drafts and the extra token are cut where the text ends."
    found = done.committed, done.finish_reason, text.finish_reason
    agree(found, (committed, reason, reason), broke, **what)
    broke = "Drafts that were cut off do not count as accepted."
    accepted = min(n, len(committed))
    agree((done.tokens, done.n_accepted), (tuple(drafts), accepted), broke, **what)
    kind = "plain" if K == 0 else "bonus" if n == K else "resampled"
    kind_or_none = kind if len(committed) == len(whole) else None
    agree(done.extra, kind_or_none, "Another kind of extra token.", **what)
    lengths, expected = (text.cache.length, drafter.calls[-1]), len(committed) + 2
    agree(lengths, (expected,) * 2, "Rolled back to another length.", **what)
    assert_holds(text.cache, target, [*PROMPT.tolist(), *committed])


@pytest.mark.exercise10
@pytest.mark.parametrize("temperature", [0, 1])
def test_the_requests_judge_decides(temperature: float) -> None:
    seen = []

    def judge(tokens: Tensor, draft_probs: Tensor, rows: Tensor, _: Any) -> Verdict:
        seen.append((tokens.tolist(), draft_probs.shape, rows.shape))
        return Verdict(1, 3)

    drafter = Fixed([2, 1, 2, 0, 0, 0], V)
    sampling = Sampling(temperature)
    target, text = begun(Request(PROMPT, 9, sampling, judge=judge), drafter)
    done = speculative_round(target, drafter, text, 3, Scripted())
    agree(done.committed, (0, 3), "The judge kept one draft and added token 3.")
    agree(seen, [([0, 0, 0], (3, V), (4, V))], "The judge gets drafts and both rows.")


# ------------------------------------------------------------ the loop: every round


@pytest.mark.exercise10
@pytest.mark.exercise11
@settings(max_examples=60)
@given(SEEDS, samplings(V), samplings(V), id_sequences(V, 1, 6), st.data())
def test_after_every_round_every_cache_is_a_fresh_prefill_of_the_text(
    seed: int, sampling: Sampling, draft_sampling: Sampling, text: list[int], data: Any
) -> None:
    """With NaN in every free slot, and any pattern of acceptances; and the rows
    reported are those that both models have after that text."""
    gamma = data.draw(st.integers(1, 4), label="gamma")
    n_new = data.draw(st.integers(0, 12), label="n_new")
    context = data.draw(st.sampled_from([24, 9, 4]), label="draft's context")
    accepts = data.draw(st.lists(st.booleans(), max_size=12), label="accepted")
    with pytest.MonkeyPatch.context() as monkeypatch:
        target, room = tiny(V, seed, n_layer=2), n_new
        caches = spy_on_caches(monkeypatch, target)
        drafter = make_drafter("model", V, seed, draft_sampling, context)
        request = Request(torch.tensor(text), n_new, sampling, gamma)
        chance = Scripted(accepts=accepts, seed=seed)
        for done in speculative_rounds(target, drafter, request, chance):
            K, fits = len(done.tokens), max(0, context - len(text) + 1)
            broke = "A round drafts gamma tokens, or what has room beside one more."
            agree(K, min(gamma, room - 1, fits), broke, gamma=gamma, room=room)
            broke = "While streaming, a round has its rows."
            agree(done.rows is None, False, broke)
            assert done.rows is not None
            agree(len(caches), 1, "A text has one cache of the target.")
            drafted = [*text, *done.tokens]
            own = rows_after(target, sampling, drafted, K)
            agree(done.rows.target_probs, own, "The target's rows are not its own.")
            if K:
                own = rows_after(drafter.model, draft_sampling, drafted[:-1], K - 1)
                agree(done.rows.draft_probs, own, "The draft's rows are not its own.")
            text, room = [*text, *done.committed], room - len(done.committed)
            broke = "After a round the target's cache has all but the last token."
            agree(caches[0].length, len(text) - 1, broke, text=text)
            broke = "The draft's cache holds at most all but the last token."
            over = max(0, drafter.cache.length - (len(text) - 1))
            agree(over, 0, broke, held=drafter.cache.length, text=text)
            assert_holds(caches[0], target, text)
            assert_holds(drafter.cache, drafter.model, text)
            poison(caches[0])
            poison(drafter.cache)
        ended = room == 0 or text[-1] in sampling.eos_ids
        agree(ended, True, "The loop ended before the text.", text=text, room=room)


@pytest.mark.exercise11
def test_each_round_is_one_pass_over_what_the_models_have_not_seen(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    target, drafter = tiny(), make_drafter("model")
    fed = spy_on_feeding(monkeypatch, target)
    draft_fed = spy_on_feeding(monkeypatch, drafter.model)
    accepts = [True] * 3 + [False] + [True, False] + [True] * 3 + [True, True, False]
    request = Request(torch.tensor([1, 2]), 15, WARM, gamma=3)
    done = generate(target, drafter, request, Scripted(accepts=accepts))
    sizes = [len(one.committed) for one in done.rounds]
    agree(sizes, [4, 1, 2, 4, 3, 1], "Tokens committed by each round.")
    agree(fed, [5, 4, 4, 4, 4, 1], "Tokens fed to the target in each pass.")
    # Two in the round after one that accepted everything, and in no other.
    expected = [2, 1, 1] + [2, 1, 1] + [1, 1, 1] + [1, 1, 1] + [2, 1, 1]
    agree(draft_fed, expected, "Tokens fed to the draft in each pass.")


@pytest.mark.exercise11
def test_a_length_policy_sees_the_past_rounds_and_is_obeyed() -> None:
    seen: list[list[Round]] = []

    def policy(past: Sequence[Round]) -> int:
        seen.append(list(past))
        return len(past)  # 0 in the first round: a plain step

    request = Request(PROMPT, 20, WARM, gamma=policy)
    rounds = generate(tiny(), make_drafter("model"), request, Seeded(0)).rounds
    drafted = [len(one.tokens) for one in rounds[:4]]
    agree(drafted, [0, 1, 2, 3], "Round i should draft as many as the policy says.")
    agree(seen, [list(rounds[:i]) for i in range(len(seen))], "Not the past rounds.")
    bare = all(one.rows is None for past in seen for one in past)
    agree(bare, True, "The past rounds that the policy sees have no rows: large.")


# ----------------------------------------------------------------- the loop: endings


@pytest.mark.exercise11
@SEVERAL
@pytest.mark.parametrize("gamma, context", [(1, 24), (3, 24), (3, 3), (3, 4), (2, 8)])
def test_budget_or_context_is_met_exactly(gamma: int, context: int, kind: str) -> None:
    """n_positions + 1 tokens fit, since the last token is never fed."""
    fits = context + 1 - len(PROMPT)
    for n_new in [*range(2 * gamma + 4), fits, fits + 1, 99]:
        target, request = tiny(V, 6, context), Request(PROMPT, n_new, gamma=gamma)
        done = generate(target, make_drafter(kind), request, Seeded(n_new))
        ended, reason = min(n_new, fits), "length" if n_new <= fits else "context"
        broke = "The text ends at another place, or for another reason."
        what: Any = {"max_new_tokens": n_new, "n_positions": context, "prompt": 3}
        agree((done.emitted, done.finish_reason), (ended, reason), broke, **what)


@pytest.mark.exercise11
@given(SEEDS, st.sampled_from(DRAFTERS), st.integers(1, 5), st.sets(TOKENS))
def test_an_eos_cuts_the_text_that_would_be_written_without_it(
    seed: int, kind: str, gamma: int, eos_ids: set[int]
) -> None:
    """The earliest of any EOS wins, and it is kept; one in the prompt ends nothing."""

    def written(eos: set[int]) -> Any:
        request = Request(PROMPT, 12, Sampling(eos_ids=eos), gamma)
        drafter = make_drafter(kind, V, seed)
        return generate(tiny(V, seed), drafter, request, Seeded(seed))

    whole, done = written(set()).tokens, written(eos_ids)
    ends = [i + 1 for i, token in enumerate(whole) if token in eos_ids]
    expected = whole[: ends[0]] if ends else whole, "eos" if ends else "length"
    broke = "The text should be the one without EOS, up to its first EOS."
    what: Any = {"without": whole, "eos_ids": eos_ids, "gamma": gamma}
    agree((done.tokens, done.finish_reason), expected, broke, **what)


# ---------------------------------------------------- the loop: streams, their state


def streamed(drafter: Any, seed: int, target: Any = None) -> Any:
    request = Request(PROMPT, 12, replace(WARM, eos_ids=(0,)), gamma=3)
    return speculative_rounds(target or tiny(V, 11), drafter, request, Seeded(seed))


@pytest.mark.exercise11
def test_no_round_runs_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    target = tiny(V, 2)
    fed = spy_on_feeding(monkeypatch, target)
    rounds = streamed(make_drafter("model"), 1, target)
    agree(len(fed), 0, "Nothing was asked for yet.")
    for n_rounds, _ in enumerate(islice(rounds, 2)):
        agree(len(fed), n_rounds + 1, "Each round is one pass, when it is asked for.")


@pytest.mark.exercise11
@SEVERAL
def test_a_drafter_carries_nothing_from_one_text_to_the_next(kind: str) -> None:
    """Even where the first text was left in the middle of it."""
    reused = make_drafter(kind)
    broke = "A drafter that was used before writes another text than a new one."
    for seed in range(4):
        fresh = list(streamed(make_drafter(kind), seed))
        agree(list(streamed(reused, seed)), fresh, broke, seed=seed)
        list(islice(streamed(reused, 9, tiny(V, 12)), 2))


def test_generate_is_the_stream_without_its_rows() -> None:
    request = Request(PROMPT, 12, replace(WARM, eos_ids=(0,)), gamma=3)
    whole = generate(tiny(V, 11), make_drafter("model"), request, Seeded(2)).rounds
    assert whole == tuple(streamed(make_drafter("model"), 2))
    assert all(one.rows is None for one in whole)


def test_models_may_change_their_type_between_two_texts() -> None:
    target, drafter = tiny(V, 1), ModelDrafter(tiny(V, 2))
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        target.to(dtype), drafter.model.to(dtype)
        done = generate(target, drafter, Request(PROMPT, 9), Seeded(0))
        assert (done.emitted, drafter.cache.keys[0].dtype) == (9, dtype)


def test_hooks_on_the_models_fire_in_every_pass() -> None:
    target, drafter, passes = tiny(), make_drafter("model"), []
    target.register_forward_hook(lambda *_: passes.append("target"))
    drafter.model.register_forward_hook(lambda *_: passes.append("draft"))
    done = generate(target, drafter, Request(PROMPT, 9), Seeded(0))
    assert passes.count("target") == done.target_forwards
    assert passes.count("draft") == done.drafted


@pytest.mark.slow
def test_a_compiled_model_is_really_used() -> None:
    """The backend counts the calls of the graph and leaves it as it is."""
    calls, request = [], Request(PROMPT, 5, WARM, gamma=2)

    def counting(graph: Any, _: Any) -> Any:
        return lambda *inputs: calls.append(1) or graph(*inputs)

    target = torch.compile(tiny(), backend=counting)
    done = generate(target, make_drafter("model"), request, Seeded(0))
    torch._dynamo.reset()
    assert done == generate(tiny(), make_drafter("model"), request, Seeded(0))
    assert len(calls) >= done.target_forwards

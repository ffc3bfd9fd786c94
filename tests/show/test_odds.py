"""What the page says of a round is what was asked of chance, and of the very rows.

Each identity is stated on the tries themselves: chances are those that the judge asked
for, rows those of the round, and the last row the one that was really drawn from.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from minispec import Drafter, GPTConfig, ModelDrafter, NgramDrafter, Request, Sampling
from minispec.core.rejection import Judge, reject
from minispec.core.rounds import Generation, Round
from minispec.files.tokenizer import Tokenizer
from minispec.judges import EXACT, LOSSY
from minispec.judges.block import reject_block
from minispec.show.odds import Try, judging_of, kind_of, tries_of, turned_down
from minispec.show.page import PageData
from minispec.show.picture import picture
from minispec.show.recording import Recorded, record
from minispec.show.speed import speed_of
from minispec.show.terminal import fates, quoted, round_table, Paint
from minispec.trees.drafters import FixedTrees
from minispec.trees.choices import with_replacement
from minispec.trees.ngram import NgramTrees
from minispec.trees.rounds import TreeRound
from minispec.trees.shape import from_widths
from minispec.trees.tree import TreeDrafter

from support.strategies import row_pairs, tiny_gpt

V = 5
SHAPE = GPTConfig(1, 2, 4, V, n_positions=16)
BYTES = Tokenizer.from_bytes()
PROMPT = torch.tensor([2, 1, 2])
TARGET, DRAFT = tiny_gpt(SHAPE, 1), tiny_gpt(SHAPE, 2)
DRAWN = Sampling(eos_ids=(0,))
DRAFTERS: dict[str, Drafter | TreeDrafter] = {
    "model": ModelDrafter(DRAFT, DRAWN),
    "ngram": NgramDrafter(V, longest=2),
    "tree": FixedTrees(DRAFT, from_widths([3, 2, 1]), DRAWN),
    "wasteful tree": FixedTrees(DRAFT, from_widths([3, 2]), DRAWN, with_replacement),
    "ngram tree": NgramTrees(V, 6),
}
EXACTLY = {"rtol": 0, "atol": 1e-12}
Decided = tuple[Round, Recorded, list[Try]]


def decided(
    drafter: Drafter | TreeDrafter,
    seed: int,
    judge: Judge = reject,
    sampling: Sampling = DRAWN,
) -> list[Decided]:
    """Some rounds that drafted something, with what was recorded and tried."""
    request = Request(PROMPT, 12, sampling, 4, judge)
    rounds = record(TARGET, drafter, request, seed)
    return [(one, facts, tries_of(one, facts, judge)) for one, facts in rounds]


def at(one: Round, a_try: Try) -> tuple[float, float]:
    """wanted and given at the draft itself."""
    token = one.tokens[a_try.node]
    return a_try.wanted[token].item(), a_try.given[token].item()


# ------------------------------------------------------------------ chances and rows


@pytest.mark.parametrize("name", DRAFTERS)
@given(seed=st.integers(0, 10**6))
def test_one_by_one_the_chance_is_wanted_over_given(name: str, seed: int) -> None:
    """In trees too; and the last row is the residual where a try failed."""
    for one, facts, tries in decided(DRAFTERS[name], seed):
        assert [a_try.trial for a_try in tries] == list(facts.trials)
        for a_try in tries:
            wanted, given_ = at(one, a_try)
            assert a_try.trial is not None
            assert a_try.trial.chance == pytest.approx(wanted / given_, rel=1e-12)
            assert a_try.passed == (a_try.trial.draw < a_try.trial.chance)
            torch.testing.assert_close(a_try.wanted.sum().item(), 1.0, **EXACTLY)
        assert_last_row(one, facts, tries)


@given(seed=st.integers(0, 10**6))
def test_block_verification_tries_from_the_right(seed: int) -> None:
    """kept and S, read off the pictures, give every chance that was asked for."""
    for one, facts, tries in decided(DRAFTERS["model"], seed, reject_block):
        nodes = [a_try.node for a_try in tries]
        assert nodes == [*range(len(one.tokens))][::-1][: len(tries)]
        still_wanted = None
        for a_try in tries:
            wanted, given_ = at(one, a_try)
            kept = min(1.0, wanted / given_)
            S = still_wanted
            chance = kept if S is None or kept == 1 else S / (S + 1 - kept)
            assert a_try.trial is not None
            assert a_try.trial.chance == pytest.approx(chance, rel=1e-9)
            still_wanted = (a_try.wanted - a_try.given).clamp(min=0).sum().item()
        assert_last_row(one, facts, tries)


@pytest.mark.parametrize("name", LOSSY)
@given(seed=st.integers(0, 10**6))
def test_a_lossy_judge_is_shown_as_it_judges(name: str, seed: int) -> None:
    """Lenience asks for twice the chance; a rule asks for none."""
    for one, facts, tries in decided(DRAFTERS["model"], seed, LOSSY[name]):
        by_rule = judging_of(one, facts, LOSSY[name]) == "by a rule"
        assert by_rule == (name != "lenient" and one.tokens != ())
        for a_try in tries:
            wanted, given_ = at(one, a_try)
            assert (a_try.trial is None) == by_rule
            if a_try.trial is not None:
                assert a_try.trial.chance == pytest.approx(2 * wanted / given_)
            assert a_try.passed == (a_try.node < facts.n_kept)


def assert_last_row(one: Round, facts: Recorded, tries: list[Try]) -> None:
    """For an exact judge: the residual of the try where drafting ended, or a bonus."""
    assert facts.row is not None and facts.row[facts.drawn] > 0
    end = turned_down(one, tries, facts.n_kept)
    kind = kind_of(one, end, facts.row)
    assert kind == ("residual" if end else "bonus" if one.tokens else "plain")
    if end:
        excess = (end.wanted - end.given).clamp(min=0)
        torch.testing.assert_close(facts.row, excess / excess.sum(), **EXACTLY)
    if one.extra:
        assert one.extra == ("resampled" if end else kind)
        assert one.committed[-1] == facts.drawn and one.n_accepted == facts.n_kept


# ----------------------------------------------------------------------------- fates


@pytest.mark.parametrize("name", DRAFTERS)
@given(seed=st.integers(0, 10**6))
def test_fates_follow_from_the_tries(name: str, seed: int) -> None:
    """In a tree: accepted is the path, rejected what was tried beside it."""
    for one, _, tries in decided(DRAFTERS[name], seed):
        path = one.path if isinstance(one, TreeRound) else range(one.n_accepted)
        found = fates(one)
        assert {i for i, fate in enumerate(found) if fate == "accepted"} == {*path}
        failed = {a_try.node for a_try in tries if not a_try.passed}
        rejected = {i for i, fate in enumerate(found) if fate == "rejected"}
        assert rejected == failed if one.extra else rejected <= failed


def test_all_that_a_failed_block_holds_is_rejected() -> None:
    """On the page and in the table."""
    many = [decided(DRAFTERS["model"], seed, reject_block) for seed in range(20)]
    for one, _, tries in (decision for decode in many for decision in decode):
        n, K = one.n_accepted, len(one.tokens)
        if one.extra:
            found = fates(one, reject_block)
            assert found == ["accepted"] * n + ["rejected"] * (K - n)
            failed = [a_try.node for a_try in tries if not a_try.passed]
            assert sorted(failed) == [*range(n, K)]
            table = round_table(one, 1, BYTES, Paint(False), reject_block)
            assert table.count("  rejected") == K - n


def test_the_table_of_a_tree_indents_each_node_after_its_parent() -> None:
    one, _ = next(record(TARGET, NgramTrees(V, 6), Request(PROMPT, 12), 1))
    assert isinstance(one, TreeRound) and one.parents == (-1, 0)
    lines = round_table(one, 1, BYTES, Paint(False)).splitlines()
    indents = [len(line) - len(line.lstrip()) for line in lines[1:3]]
    assert indents == [2, 4] and all(" target " in line for line in lines[1:3])
    assert one.rows is not None
    assert f"{one.rows.target_probs[1, one.tokens[1]].item():.3f}" in lines[2]


# -------------------------------------------------------------------------- pictures


@given(row_pairs(), st.data())
def test_a_picture_is_of_the_whole_rows(
    rows: tuple[torch.Tensor, torch.Tensor], data: st.DataObject
) -> None:
    """min(target, draft) sums to 1 - TV, and the other two parts to TV each."""
    target, draft = rows
    shown = data.draw(st.sets(st.integers(0, len(target) - 1), min_size=1))
    found = picture(target, draft, [*shown], min(shown), BYTES)
    tv = (target - draft).abs().sum().item() / 2
    for part, expected in ("overlap", 1 - tv), ("residual", tv), ("surplus", tv):
        assert found[part] == pytest.approx(expected, abs=1e-12)
        lines = [*found["bars"], found["others"]]
        assert sum(line[part] for line in lines) == pytest.approx(found[part])
    for token, bar in zip(shown, found["bars"]):
        assert bar["overlap"] + bar["residual"] == pytest.approx(target[token].item())
        assert bar["overlap"] + bar["surplus"] == pytest.approx(draft[token].item())


def data_of(drafter: Drafter | TreeDrafter, request: Request) -> dict[str, Any]:
    """The page's data of a decode."""
    data, rounds, notes = PageData("p", request, BYTES), list[Round](), list[Recorded]()
    for one, facts in record(TARGET, drafter, request, 3):
        rounds.append(one)
        notes.append(facts)
        data.add(one, facts, Generation(tuple(rounds)))
    generation = Generation(tuple(rounds))
    return data.finish("", None, generation, speed_of(generation, notes, []), {})


@pytest.mark.parametrize("name", [*DRAFTERS, "block"])
def test_the_data_are_those_of_the_rounds(name: str) -> None:
    judge = EXACT.get(name, reject)
    drafter, request = DRAFTERS.get(name, DRAFTERS["model"]), Request(PROMPT, 12, DRAWN)
    request = Request(PROMPT, 12, DRAWN, 4, judge)
    told = data_of(drafter, request)["rounds"]
    rounds = list(record(TARGET, drafter, request, 3))
    for (one, facts), data in zip(rounds, told, strict=True):
        assert [node["token"] for node in data["drafted"]] == [
            quoted(BYTES, token) for token in one.tokens
        ]
        accepted = [one.tokens[node] for node in data["path"]]
        assert accepted == [*one.committed[: one.n_accepted]]
        parents = [node["parent"] for node in data["drafted"]]
        chain = range(-1, len(one.tokens) - 1)
        assert parents == list(getattr(one, "parents", chain))
        assert [(each["chance"], each["draw"]) for each in data["tries"]] == [
            (min(trial.chance, 1e6), trial.draw) for trial in facts.trials
        ]
        lines = [*data["draw"]["picture"]["bars"], data["draw"]["picture"]["others"]]
        assert sum(line["prob"] for line in lines) == pytest.approx(1)
        if data["draw"]["kind"] == "residual":
            mass = data["draw"]["picture"]["residual"]
            for line in lines:
                expected = pytest.approx(line["residual"] / mass, abs=1e-9)
                assert line["prob"] == expected


def test_coupled_rows_are_one_hot_and_the_page_says_so() -> None:
    sampling = Sampling(noise_seed=4)
    request = Request(PROMPT, 12, sampling)
    data = data_of(ModelDrafter(DRAFT, sampling), request)
    assert data["certain"] == "coupled"
    for one in data["rounds"]:
        for a_try in one["tries"]:
            agree = a_try["picture"]["overlap"]
            assert agree == a_try["chance"] == float(a_try["passed"])

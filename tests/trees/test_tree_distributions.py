"""The gate for trees: the text has exactly the target's distribution.

As in tests/test_distributions.py, whose tables and oracle are used: the whole real
loop, down every branch of chance, to 1e-12.

    every way to grow a tree  x  every way to sample  x  every way to end  x  corners
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from torch import Tensor

from minispec import GPT, Generation, ModelDrafter, Sampling, generate
from minispec.core.randomness import Randomness
from minispec.core.rounds import Round
from minispec.exactness import (
    Distribution, assert_same_distribution, output_distribution
)
from minispec.trees.choices import Choice, most_probable, with_replacement
from minispec.trees.drafters import BestTrees, FixedTrees
from minispec.trees.ngram import NgramTrees
from minispec.trees.shape import Shape, from_widths
from minispec.trees.speculative import generate_with_trees
from minispec.trees.tree import TreeDrafter

from support.decoding import tiny
from test_distributions import ENDINGS, SAMPLINGS, Case, expected, one_output

PAIR = from_widths([2])
BUSH: Shape = (((), ()), ())  # two children, the first of which has two
CHAIN = from_widths([1, 1, 1])


def draft_model(case: Case) -> GPT:
    return tiny(case.vocab_size, case.seed + 100, case.draft_context)


def fixed(case: Case, shape: Shape = PAIR, choice: Choice | None = None) -> TreeDrafter:
    sampling = case.draft_sampling or case.sampling
    return FixedTrees(draft_model(case), shape, sampling, choice)


def best(case: Case, n_nodes: int = 3, depth: int = 2) -> TreeDrafter:
    return BestTrees(
        draft_model(case), n_nodes, case.draft_sampling or case.sampling, depth
    )


Grower = Callable[[Case], TreeDrafter]
DRAWN: dict[str, Grower] = {
    "without replacement": fixed,
    "with replacement": partial(fixed, choice=with_replacement),
}
CHOSEN: dict[str, Grower] = {
    "most probable": partial(fixed, shape=BUSH, choice=most_probable),
    "best": best,
    "ngram": lambda case: NgramTrees(case.vocab_size, 4, depth=2, longest=2),
}


def grown(
    grower: Grower, case: Case, watch: Callable[[Generation], None] = lambda done: None
) -> Distribution:
    """The distribution of the loop with trees; `watch` sees every branch."""
    target, request, drafter = case.target(), case.request(), grower(case)

    def run(chance: Randomness) -> tuple[int, ...]:
        done = generate_with_trees(target, drafter, request, chance)
        watch(done)
        return one_output(done)

    return output_distribution(run)


def same(grower: Grower, case: Case) -> None:
    assert_same_distribution(grown(grower, case), expected(case))


# ------------------------------------------------------------ everything by everything


def case_of(sampling: str, ending: str) -> Case:
    how = {"eos_ids": (), "min_length": 0, "n_new": 3, "context": 16, **ENDINGS[ending]}
    eos_ids, min_length = how.pop("eos_ids"), how.pop("min_length")
    chain = replace(SAMPLINGS[sampling], eos_ids=eos_ids, min_length=min_length)
    return Case(chain, **how)


@pytest.mark.parametrize("how", [*SAMPLINGS, *ENDINGS])
@pytest.mark.parametrize("grower", DRAWN)
def test_the_distribution_is_the_targets_where_children_are_drawn(
    grower: str, how: str
) -> None:
    """Each way to sample with an EOS, each way to end with plain sampling."""
    is_sampling = how in SAMPLINGS
    case = case_of(how, "eos") if is_sampling else case_of("plain", how)
    same(DRAWN[grower], case)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("grower", CHOSEN)
def test_the_distribution_is_the_targets(
    grower: str, sampling: str, ending: str
) -> None:
    same(CHOSEN[grower], case_of(sampling, ending))


# ------------------------------------------------------------------------- the corners

TWO = Case(vocab_size=2, prompt=(1, 0))
CORNERS: dict[str, tuple[Grower, Case]] = {
    "two levels": (partial(fixed, shape=BUSH), replace(TWO, n_new=4)),
    "two levels and an EOS": (
        partial(fixed, shape=BUSH),
        replace(TWO, sampling=Sampling(eos_ids=(1,))),
    ),
    "two levels of independent draws": (
        partial(fixed, shape=(((), ()),), choice=with_replacement),
        replace(TWO, n_new=3),
    ),
    "only second children go on": (partial(fixed, shape=((), ((),))), TWO),
    "three levels": (partial(fixed, shape=(((((),), ()),))), TWO),
    "no tree": (partial(fixed, shape=()), Case()),
    "a budget of 1 drafts nothing": (fixed, Case(n_new=1)),
    "a shape deeper than the budget": (partial(fixed, shape=CHAIN), TWO),
    "more children than tokens": (partial(fixed, shape=from_widths([5])), TWO),
    "a greedy target, a warm draft": (
        fixed, Case(Sampling(temperature=0), draft_sampling=Sampling())
    ),
    "a greedy draft": (fixed, Case(draft_sampling=Sampling(temperature=0))),
    "a draft that truncates": (fixed, Case(draft_sampling=Sampling(0.5, top_k=2))),
    "a penalty on the target alone": (
        partial(fixed, shape=BUSH),
        replace(
            TWO, sampling=Sampling(repetition_penalty=1.8), draft_sampling=Sampling()
        ),
    ),
    "late EOS on the target alone": (
        fixed,
        Case(Sampling(eos_ids=(0,), min_length=5), n_new=3, draft_sampling=Sampling()),
    ),
    "the prompt fills the context": (best, replace(TWO, n_new=9, context=2)),
    "the prompt leaves one position": (best, replace(TWO, n_new=9, context=3)),
    "the draft's context ends first": (best, replace(TWO, n_new=5, draft_context=4)),
    "a fixed tree where the draft's context ends": (
        partial(fixed, shape=BUSH), replace(TWO, draft_context=3)
    ),
    "the prompt is beyond the draft's context": (fixed, Case(draft_context=2)),
    "many best nodes": (partial(best, n_nodes=9, depth=3), Case()),
    "an EOS is copied": (
        CHOSEN["ngram"],
        Case(Sampling(eos_ids=(1,)), prompt=(0, 1, 2, 0, 2, 0), n_new=4),
    ),
}


@pytest.mark.parametrize("corner", CORNERS)
def test_the_distribution_is_the_targets_in_the_corner(corner: str) -> None:
    same(*CORNERS[corner])


# ------------------------------------------------------------------ a tree and a chain


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.7, eos_ids=(1,))])
def test_a_chain_shaped_tree_gives_the_rounds_of_the_chain(sampling: Sampling) -> None:
    """On every branch: the same decisions in the same order, the same rounds."""
    case = replace(TWO, sampling=sampling, n_new=4, gamma=3)
    target, request = case.target(), case.request()
    chain, trees = ModelDrafter(draft_model(case), sampling), fixed(case, CHAIN)

    def run(chance: Recorded) -> tuple[int, ...]:
        rounds = generate(target, chain, request, chance).rounds
        again = Replayed(chance)
        twins = generate_with_trees(target, trees, request, again).rounds
        assert again.is_done
        assert [plain(one) for one in twins] == [plain(one) for one in rounds]
        assert all(one.parents == tuple(range(-1, one.depth - 1)) for one in twins)
        return ()

    output_distribution(lambda chance: run(Recorded(chance)))


def plain(one: Round) -> tuple[object, ...]:
    return one.tokens, one.n_accepted, one.committed, one.judged, one.extra


class Recorded:
    """Writes down what was asked and what came out."""

    def __init__(self, chance: Randomness) -> None:
        self.chance = chance
        self.log: list[tuple[list[float], int]] = []

    def sample(self, probs: Tensor) -> int:
        self.log.append((probs.tolist(), self.chance.sample(probs)))
        return self.log[-1][1]

    def accept(self, chance: float) -> bool:
        self.log.append(([min(1.0, chance)], self.chance.accept(chance)))
        return bool(self.log[-1][1])


class Replayed:
    """Answers as recorded, if it is asked the same."""

    def __init__(self, recorded: Recorded) -> None:
        self.log = list(recorded.log)

    def sample(self, probs: Tensor) -> int:
        row, answer = self.log.pop(0)
        assert probs.tolist() == pytest.approx(row, abs=1e-12)
        return answer

    def accept(self, chance: float) -> bool:
        row, answer = self.log.pop(0)
        assert min(1.0, chance) == pytest.approx(row[0], abs=1e-12)
        return bool(answer)

    @property
    def is_done(self) -> bool:
        return not self.log

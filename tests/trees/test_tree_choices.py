"""Children of a node: their rows are what they were drawn from, siblings considered."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import example, given
import hypothesis.strategies as st
from torch import Tensor

from minispec import Sampling, Seeded
from minispec.core.coupling import gumbel_noise
from minispec.core.randomness import Randomness
from minispec.core.sampling import logits_to_probs
from minispec.exactness import output_distribution
from minispec.trees.choices import (
    SHARP, Choice, child_rows, most_probable, with_replacement, without_replacement
)
from minispec.trees.rejection import reject_tree
from minispec.trees.tree import Tree

from support.checks import agree, same_odds
from support.decoding import Scripted
from support.strategies import SEEDS, probability_rows

TARGET = torch.tensor([2 / 3, 1 / 3, 0.0], dtype=torch.float64)
DRAFT = torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64)


def first_token(choice: Choice) -> dict[tuple[int, ...], float]:
    """Of one round with two children at the prefix."""

    def run(chance: Randomness) -> list[int]:
        tokens, rows = choice(DRAFT.clone(), 2, chance)
        tree = Tree(torch.tensor(tokens), (-1,) * len(tokens), rows)
        verdict = reject_tree(tree, TARGET.expand(len(tokens) + 1, 3), chance)
        return [*(tokens[node] for node in verdict.path), verdict.next_token][:1]

    return output_distribution(run)


def unnormalised(row: Tensor, k: int, chance: Randomness) -> tuple[list[int], Tensor]:
    """The mistake: declares the deleted rows as they are."""
    tokens, rows = without_replacement(row, k, chance)
    return tokens, torch.stack([row, row.index_fill(0, torch.tensor(tokens[0]), 0.0)])


@pytest.mark.exercise15
@given(probability_rows(4), st.integers(1, 5), SEEDS)
@example(torch.tensor([1 - 1e-9, 1e-9, 0.0, 0.0], dtype=torch.float64), 2, 0)
def test_without_replacement_each_row_lacks_its_elder_siblings(
    row: Tensor, k: int, seed: int
) -> None:
    """It is what was drawn from, sums to 1, and ends when no token is left."""
    chance, given_row = Scripted(seed=seed), row.clone()
    tokens, rows = without_replacement(row, k, chance)
    what: Any = {"row": given_row, "k": k, "tokens": tokens}
    kinds = type(tokens).__name__, {type(token).__name__ for token in tokens}
    agree(kinds, ("list", {"int"}), "The tokens are a list of whole numbers.", **what)
    agree(len(chance.rows), len(tokens), "Each is drawn by randomness.sample.", **what)
    broke = "k children, or as many as there are tokens of positive probability."
    agree(len(tokens), min(k, int((given_row > 0).sum())), broke, **what)
    agree(len(set(tokens)), len(tokens), "A token was drawn twice.", **what)
    broke = "The rows that come back are not those that the tokens were drawn from."
    agree(rows, torch.stack(chance.rows), broke, **what)
    for i, drawn in enumerate(rows):
        rest = given_row.clone()
        rest[tokens[:i]] = 0
        broke = f"Row {i} is not the row without the elder siblings, made to sum to 1."
        agree(drawn, rest / rest.sum(), broke, **what)
    agree(row, given_row, "The row handed in was changed.", tolerance=0)


@pytest.mark.exercise15
@pytest.mark.parametrize(
    "choice", [without_replacement, with_replacement, most_probable]
)
def test_the_second_token_comes_out_with_a_third(choice: Choice) -> None:
    """Two children of the prefix, both of them rejected now and then."""
    broke = "The first token of a round is not distributed as the target's row says."
    what = {"target row": TARGET, "draft row": DRAFT, "children": choice.__name__}
    same_odds(first_token(choice), {(0,): 2 / 3, (1,): 1 / 3}, broke, **what)


def test_rows_that_are_not_normalised_give_a_sixth_where_a_third_is_due() -> None:
    assert first_token(unnormalised)[1,] == pytest.approx(1 / 6, abs=1e-12)


@given(probability_rows(4), st.integers(1, 5))
def test_the_most_probable_are_chosen_with_certainty(row: Tensor, k: int) -> None:
    tokens, rows = most_probable(row, k, Seeded(0))
    highest = sorted(row.tolist(), reverse=True)[:k]
    assert row[tokens].tolist() == [chance for chance in highest if chance > 0]
    assert rows.tolist() == torch.eye(4)[tokens].tolist()


LOGITS = torch.tensor([[0.3, 2.0, -1.0, 1.0, 0.1], [1.0, 0.9, 0.8, -2.0, 0.0]]).double()
HISTORY = torch.tensor([1, 3, 0])
PENALTY = Sampling(0.7, repetition_penalty=1.3)


def test_a_greedy_target_has_its_runners_up_ranked() -> None:
    """Penalties count, truncation does not; where the target draws, all is as drawn."""
    plain = Sampling(SHARP, repetition_penalty=1.3)
    for greedy in (Sampling(0, 3, 0.5, 0.5, 1.3), Sampling(0.7, 1, 1.0, 0.0, 1.3)):
        sharp = logits_to_probs(LOGITS, plain, HISTORY)
        assert torch.equal(child_rows(LOGITS, greedy, HISTORY), sharp)
    for warm in (PENALTY, Sampling(0.7, top_k=2)):
        drawn = logits_to_probs(LOGITS, warm, HISTORY)
        assert torch.equal(child_rows(LOGITS, warm, HISTORY), drawn)


def test_a_coupled_target_has_its_runners_up_ranked_with_the_noise() -> None:
    """By log q + noise of the position; the first is the one that coupling draws."""
    for seed in range(50):
        coupled = Sampling(0.7, top_k=3, repetition_penalty=1.3, noise_seed=seed)
        plain = Sampling(0.7, top_k=3, repetition_penalty=1.3)
        rows = child_rows(LOGITS, coupled, HISTORY)
        alone = logits_to_probs(LOGITS, plain, HISTORY)
        for i in range(2):
            scores = alone[i].log() + gumbel_noise(seed, 2 + i, 5)
            assert rows[i].argsort()[2:].tolist() == scores.argsort()[2:].tolist()
            assert (rows[i] > 0).tolist() == (alone[i] > 0).tolist()
        first = logits_to_probs(LOGITS, coupled, HISTORY).argmax(dim=-1)
        assert rows.argmax(dim=-1).tolist() == first.tolist()

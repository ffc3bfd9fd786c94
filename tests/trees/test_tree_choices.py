"""Children of a node: their rows are what they were drawn from, siblings considered."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
import hypothesis.strategies as st
from torch import Tensor

from minispec import Sampling, Seeded
from minispec.core.randomness import Randomness
from minispec.exactness import output_distribution
from minispec.trees.choices import (
    SHARP, Choice, most_probable, ranking, with_replacement, without_replacement
)
from minispec.trees.rejection import reject_tree
from minispec.trees.tree import Tree

from support.decoding import Scripted
from support.strategies import SEEDS, probability_rows

TARGET = torch.tensor([2 / 3, 1 / 3, 0.0], dtype=torch.float64)
DRAFT = torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64)


def first_token(choice: Choice) -> dict[tuple[int, ...], float]:
    """Of one round with two children at the prefix."""

    def run(chance: Randomness) -> list[int]:
        tokens, rows = choice(DRAFT, 2, chance)
        tree = Tree(torch.tensor(tokens), (-1,) * len(tokens), rows)
        verdict = reject_tree(tree, TARGET.expand(len(tokens) + 1, 3), chance)
        return [*(tokens[node] for node in verdict.path), verdict.next_token][:1]

    return output_distribution(run)


def unnormalised(row: Tensor, k: int, chance: Randomness) -> tuple[list[int], Tensor]:
    """The mistake: declares the deleted rows as they are."""
    tokens, rows = without_replacement(row, k, chance)
    return tokens, torch.stack([row, row.index_fill(0, torch.tensor(tokens[0]), 0.0)])


@pytest.mark.parametrize(
    "choice", [without_replacement, with_replacement, most_probable]
)
def test_the_second_token_comes_out_with_a_third(choice: Choice) -> None:
    expected = {(0,): 2 / 3, (1,): 1 / 3}
    assert first_token(choice) == pytest.approx(expected, abs=1e-12)


def test_rows_that_are_not_normalised_give_a_sixth_where_a_third_is_due() -> None:
    assert first_token(unnormalised)[1,] == pytest.approx(1 / 6, abs=1e-12)


@given(probability_rows(4), st.integers(1, 5), SEEDS)
def test_without_replacement_each_row_lacks_its_elder_siblings(
    row: Tensor, k: int, seed: int
) -> None:
    """It is what was drawn from, sums to 1, and ends when no token is left."""
    chance = Scripted(seed=seed)
    tokens, rows = without_replacement(row, k, chance)
    assert len(set(tokens)) == len(tokens) == min(k, int((row > 0).sum()))
    assert [drawn.tolist() for drawn in chance.rows] == rows.tolist()
    for i, drawn in enumerate(rows):
        rest = row.clone()
        rest[tokens[:i]] = 0
        torch.testing.assert_close(drawn, rest / rest.sum(), rtol=0, atol=1e-12)


@given(probability_rows(4), st.integers(1, 5))
def test_the_most_probable_are_chosen_with_certainty(row: Tensor, k: int) -> None:
    tokens, rows = most_probable(row, k, Seeded(0))
    highest = sorted(row.tolist(), reverse=True)[:k]
    assert row[tokens].tolist() == [chance for chance in highest if chance > 0]
    assert rows.tolist() == torch.eye(4)[tokens].tolist()


def test_only_a_greedy_sampling_is_ranked_before_its_temperature() -> None:
    warm = Sampling(0.7, top_k=2, repetition_penalty=1.3, eos_ids=(1,))
    assert ranking(warm) == warm
    greedy = Sampling(0, 1, 0.5, 0.5, 1.3, eos_ids=(1,))
    assert ranking(greedy) == Sampling(SHARP, repetition_penalty=1.3, eos_ids=(1,))

"""Trees of heads that guess each position for itself: one row for each level."""

from __future__ import annotations

import pytest
import torch

from minispec import Request, Sampling, Seeded, generate_alone
from minispec.core.coupling import gumbel_noise
from minispec.core.randomness import Randomness
from minispec.drafters.medusa import Medusa, MedusaDrafter
from minispec.drafters.suffix import SuffixTrees
from minispec.exactness import assert_same_distribution, output_distribution
from minispec.trees.factorised import FactorisedTrees
from minispec.trees.shape import from_widths
from minispec.trees.speculative import generate_with_trees
from minispec.trees.tree import Tree

from support.decoding import tiny

PREFIX = torch.tensor([0, 1, 2])


def medusa(sampling: Sampling) -> tuple[torch.nn.Module, MedusaDrafter]:
    target = tiny(3, seed=4, n_positions=12)
    head = Medusa(target.config, n_heads=2).double().requires_grad_(False)
    noise = torch.Generator().manual_seed(1)
    for parameter in head.parameters():
        parameter.normal_(0.2, 0.8, generator=noise)
    return target, head.drafter(target, sampling)  # type: ignore[return-value]


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(1.2, eos_ids=(2,)),
        Sampling(1.2, top_k=2, repetition_penalty=1.4, min_length=5, eos_ids=(2,)),
        Sampling(0, eos_ids=(2,)),
        Sampling(1.2, noise_seed=3, eos_ids=(2,)),
    ],
)
def test_the_distribution_is_the_targets(sampling: Sampling) -> None:
    target, drafter = medusa(sampling)
    trees = FactorisedTrees(drafter, from_widths([2, 2]))
    request = Request(torch.tensor([0, 1, 0]), 5, sampling)
    accepted = []

    def run(chance: Randomness) -> tuple[int, ...]:
        done = generate_with_trees(target, trees, request, chance)
        accepted.append(done.accepted)
        return done.tokens

    expected = output_distribution(lambda c: generate_alone(target, request, c).tokens)
    assert_same_distribution(output_distribution(run), expected)
    assert max(accepted) >= 1


def read(sampling: Sampling) -> tuple[FactorisedTrees, MedusaDrafter]:
    """Trees of two levels, after the target has been through the prefix."""
    target, drafter = medusa(sampling)
    trees, cache = FactorisedTrees(drafter, from_widths([2, 3])), target.new_cache()
    trees.begin(cache)
    assert len(tree_of(trees).tokens) == 0
    target(PREFIX[None, :-1], cache)
    return trees, drafter


def tree_of(trees: FactorisedTrees, depth: int = 4) -> Tree:
    return trees.propose_tree(PREFIX, depth, None)  # type: ignore


@pytest.mark.parametrize("coupled", [None, 0, 1, 2, 3, 4])
@pytest.mark.parametrize("temperature", [0, 5.0])  # warm: the noise must matter
def test_a_level_offers_the_best_tokens_of_its_head(
    temperature: float, coupled: int | None
) -> None:
    """By the logits; where draws are coupled, with the noise of the head's position."""
    trees, drafter = read(Sampling(temperature, noise_seed=coupled))
    scores = drafter.logits().log_softmax(dim=-1)
    if temperature and coupled is not None:
        noise = [gumbel_noise(coupled, len(PREFIX) + k, 3) for k in range(2)]
        scores = scores / temperature + torch.stack(noise)
    first, second = scores.argsort(descending=True).tolist()
    tree = tree_of(trees)
    assert tree.parents == (-1, -1, 0, 0, 1)
    assert tree.tokens.tolist() == [*first[:2], *second[:2], second[0]]
    assert len(tree_of(trees, depth=1).tokens) == 2


def test_a_token_that_cannot_come_is_not_offered() -> None:
    """An EOS that is still forbidden, though a level has room for it."""
    trees, drafter = read(Sampling(eos_ids=(0,), min_length=len(PREFIX) + 1))
    rows, trees.shape = drafter.choices(PREFIX), from_widths([3, 3])
    assert rows[0, 0] == 0 < rows[1, 0]
    tree = tree_of(trees)
    assert tree.parents == (-1, -1, 0, 0, 1)
    assert sorted(tree.tokens[:2].tolist()) == [1, 2]


def test_a_target_of_another_vocabulary_is_named() -> None:
    _, drafter = medusa(Sampling())
    request = Request(PREFIX, 4)
    for trees in (FactorisedTrees(drafter, from_widths([2])), SuffixTrees(3, 2)):
        with pytest.raises(ValueError, match="a vocabulary of 3 tokens"):
            generate_with_trees(tiny(4), trees, request, Seeded(0))

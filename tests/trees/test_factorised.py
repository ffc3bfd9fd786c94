"""Trees of heads that guess each position for itself: one row for each level."""

from __future__ import annotations

import torch

from minispec import Request, Sampling, generate_alone
from minispec.core.randomness import Randomness
from minispec.drafters.medusa import Medusa, MedusaDrafter
from minispec.exactness import assert_same_distribution, output_distribution
from minispec.trees.factorised import FactorisedTrees
from minispec.trees.shape import from_widths
from minispec.trees.speculative import generate_with_trees

from support.decoding import tiny


def medusa(sampling: Sampling) -> tuple[torch.nn.Module, MedusaDrafter]:
    target = tiny(3, seed=4, n_positions=12)
    head = Medusa(target.config, n_heads=2).double().requires_grad_(False)
    noise = torch.Generator().manual_seed(1)
    for parameter in head.parameters():
        parameter.normal_(0.2, 0.8, generator=noise)
    return target, head.drafter(target, sampling)  # type: ignore[return-value]


def test_the_distribution_is_the_targets() -> None:
    sampling = Sampling(1.2, eos_ids=(2,))
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
    assert max(accepted) >= 2


def test_a_level_offers_the_most_probable_tokens_of_its_row() -> None:
    target, drafter = medusa(Sampling())
    trees = FactorisedTrees(drafter, from_widths([2, 3]))
    cache, prefix = target.new_cache(), torch.tensor([0, 1, 2])
    trees.begin(cache)
    assert len(trees.propose_tree(prefix, 4, None).tokens) == 0  # type: ignore
    target(prefix[None, :-1], cache)
    first, second = (row.argsort(descending=True) for row in drafter.choices(prefix))
    tree = trees.propose_tree(prefix, 4, None)  # type: ignore
    assert tree.parents == (-1, -1, 0, 0, 1)
    assert tree.tokens.tolist() == [*first[:2], *second[:2], second[0]]
    assert len(trees.propose_tree(prefix, 1, None).tokens) == 2  # type: ignore

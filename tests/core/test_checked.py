"""The border: a proposal that breaks the contract never reaches the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from minispec import Drafter, Proposal, Request, Seeded, generate, speculative_rounds
from minispec.core.checked import Checked

from support.decoding import DRAFTERS, make_drafter, tiny

nan, NONE = float("nan"), torch.empty(0, dtype=torch.long)
GOOD = [[0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 1.0, 0.0]]


@dataclass
class Careless(Drafter):
    """Proposes the same, whatever it is asked for."""

    tokens: Any
    rows: Any

    def propose(self, prefix: Tensor, gamma: int, randomness: Any) -> Proposal:
        return Proposal(torch.as_tensor(self.tokens), torch.as_tensor(self.rows))


def proposed(tokens: Any, rows: Any, gamma: int = 2) -> Proposal:
    checked = Checked(Careless(tokens, rows), vocab_size=4)
    checked.begin(tiny().new_cache())
    return checked.propose(torch.tensor([1]), gamma, Seeded(0))


@pytest.mark.parametrize(
    "tokens, rows, says",
    [
        ([0, 2, 2], [*GOOD, GOOD[1]], "asked for 2 tokens at most and gave 3"),
        ([0, 4], GOOD, r"below 4, got \[0, 4\]: do the drafter and the target share"),
        ([0, -1], GOOD, r"at least 0 and below 4, got \[0, -1\]"),
        ([0.0, 2.0], GOOD, r"int64 ids, .* got torch.float32 of shape \[2\]"),
        ([], torch.zeros(0, 4), "int64 ids, .* got torch.float32"),
        (torch.tensor([0, 2], dtype=torch.int32), GOOD, "got torch.int32"),
        ([[0, 2]], GOOD, r"got torch.int64 of shape \[1, 2\]"),
        (0, GOOD, r"got torch.int64 of shape \[\]"),
        ([0, 2], GOOD[:1], r"\[2, 4\], got \[1, 4\]"),
        ([0, 2], GOOD[0], r"\[2, 4\], got \[4\]"),
        ([0, 2], [row[:3] for row in GOOD], r"\[2, 4\], got \[2, 3\]"),
        (NONE, torch.zeros(0, 5), r"\[0, 4\], got \[0, 5\]"),
        ([0, 2], torch.tensor(GOOD).bfloat16(), "float32 or wider, got torch.bfloat16"),
        ([0, 2], [GOOD[0], [nan, 0, 1, 0]], "sum to 1, got sums .*nan"),
        ([0, 2], [GOOD[0], [0.5, -0.5, 1, 0]], "lowest entry of -0.5"),
        ([0, 2], [[0.5, 0.25, 0.0, 0.0], GOOD[1]], "sum to 1, got sums .0.75, 1"),
        ([0, 2], [GOOD[0], [0, 0, 0, 0]], "sum to 1, got sums .1.0, 0"),
        ([0, 2], [GOOD[0], [0, 0, 2, 0]], "sum to 1, got sums .1.0, 2"),
        ([3, 2], GOOD, "drafted token has draft probability 0"),
    ],
)
def test_a_broken_proposal_is_named(tokens: Any, rows: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        proposed(tokens, rows)


def test_a_good_proposal_passes_as_it_is() -> None:
    """No tokens, fewer than asked for, and rows that rounding has touched."""
    assert len(proposed(NONE, torch.zeros(0, 4), gamma=0).tokens) == 0
    off = torch.tensor(GOOD) * (1 + 1e-5)
    assert proposed([0, 2], off, gamma=9).draft_probs.equal(off)


@pytest.mark.exercise11
def test_the_decoder_checks_before_the_target_is_asked() -> None:
    """`reject` alone would spread one column over all, and bend the distribution."""
    target, request = tiny(), Request(torch.tensor([1]), 5, gamma=2)
    target.register_forward_hook(lambda *_: pytest.fail("the target was asked"))
    with pytest.raises(ValueError, match=r"\[2, 4\], got \[2, 1\]"):
        generate(target, Careless([0, 2], [[1.0], [1.0]]), request, Seeded(0))


@pytest.mark.parametrize("kind", DRAFTERS)
def test_one_drafter_in_two_texts_at_once_is_named(kind: str) -> None:
    drafter, request = make_drafter(kind), Request(torch.tensor([1, 2]), 9, gamma=2)
    first, second = (
        speculative_rounds(tiny(), drafter, request, Seeded(seed)) for seed in (1, 2)
    )
    next(first), next(second)
    with pytest.raises(ValueError, match="a drafter serves one text at a time"):
        next(first)
    assert len(list(second)) > 0  # the later text goes on

"""The border: a proposal that breaks the contract never reaches the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from minispec import Drafter, ModelDrafter, NgramDrafter, Proposal, Request, Seeded
from minispec import generate, speculative_rounds
from minispec.core.checked import Checked
from minispec.core.rejection import Verdict

from support.checks import agree
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


EMPTY = torch.zeros(0, 4)


@pytest.mark.parametrize(
    "proposal, says",
    [
        (None, "must return a Proposal, got None"),
        ((NONE, EMPTY), "must return a Proposal, got .tensor"),
        (Proposal([], EMPTY), r"dense tensors, got \[\]"),  # type: ignore[arg-type]
        (Proposal(NONE, [GOOD]), r"dense tensors, got \[\["),  # type: ignore[arg-type]
        (Proposal(NONE, EMPTY.to_sparse()), "dense tensors, got tensor.indices"),
    ],
)
def test_what_is_no_proposal_is_named(proposal: Any, says: str) -> None:
    drafter = make_drafter("mute")
    drafter.propose = lambda *_: proposal
    with pytest.raises(TypeError, match=says):
        generate(tiny(), drafter, Request(torch.tensor([1]), 5), Seeded(0))


def test_what_is_no_drafter_for_this_target_is_named() -> None:
    def start(drafter: Any) -> None:
        target, request = tiny(), Request(torch.tensor([1, 3]), 5)
        target.register_forward_hook(lambda *_: pytest.fail("the target was asked"))
        generate(target, drafter, request, Seeded(0))

    with pytest.raises(TypeError, match="got the class NgramDrafter: call it"):
        start(NgramDrafter)
    with pytest.raises(TypeError, match="GPT lacks begin, propose, rollback"):
        start(tiny())
    for drafter in (NgramDrafter(3), NgramDrafter(5), ModelDrafter(tiny(V=3))):
        with pytest.raises(ValueError, match="of [35] tokens and the target's has 4"):
            start(drafter)


def test_a_good_proposal_passes_as_it_is() -> None:
    """No tokens, fewer than asked for, and rows that rounding has touched."""
    assert len(proposed(NONE, torch.zeros(0, 4), gamma=0).tokens) == 0
    off = torch.tensor(GOOD) * (1 + 1e-5)
    assert proposed([0, 2], off, gamma=9).draft_probs.equal(off)


@pytest.mark.exercise11
def test_the_decoder_checks_before_the_target_is_asked() -> None:
    """The loop wraps the drafter in `Checked`. `reject` alone would spread the one
    column of these rows over all tokens, and bend the distribution."""
    target, request = tiny(), Request(torch.tensor([1]), 5, gamma=2)
    broke = "The drafter's rows have one column, and the target was asked all the same."
    target.register_forward_hook(lambda *_: agree("asked", "not asked", broke))
    with pytest.raises(ValueError, match=r"\[2, 4\], got \[2, 1\]"):
        generate(target, Careless([0, 2], [[1.0], [1.0]]), request, Seeded(0))


@pytest.mark.parametrize("kind", DRAFTERS)
def test_one_drafter_in_two_texts_at_once_is_named(kind: str) -> None:
    drafter, request = make_drafter(kind), Request(torch.tensor([1, 2]), 9, gamma=2)
    first, second = (
        speculative_rounds(tiny(), drafter, request, Seeded(seed)) for seed in (1, 2)
    )
    next(first), next(second)
    with pytest.raises(ValueError, match="has begun another text meanwhile"):
        next(first)
    assert len(list(second)) > 0  # the later text goes on


@dataclass
class Wrapper(Drafter):
    """Hands over to a drafter that it holds."""

    inner: Any

    def begin(self, cache: Any) -> None:
        self.inner.begin(cache)

    def propose(self, prefix: Tensor, gamma: int, randomness: Any) -> Proposal:
        return self.inner.propose(prefix, gamma, randomness)

    def rollback(self, length: int) -> None:
        self.inner.rollback(length)


def test_one_drafter_behind_two_wrappers_is_named() -> None:
    inner, request = make_drafter("model"), Request(torch.tensor([1, 2]), 9, gamma=2)
    first, second = (
        speculative_rounds(tiny(), Wrapper(Wrapper(inner)), request, Seeded(seed))
        for seed in (1, 2)
    )
    next(first), next(second)
    with pytest.raises(ValueError, match="has begun another text meanwhile"):
        next(first)
    assert len(list(second)) > 0


@pytest.mark.exercise11
@pytest.mark.parametrize("kind", DRAFTERS)
def test_a_drafter_that_writes_into_its_prefix_does_not_change_the_text(
    kind: str
) -> None:
    class Scribbler(Wrapper):
        def propose(self, prefix: Tensor, gamma: int, randomness: Any) -> Proposal:
            proposal = super().propose(prefix.clone(), gamma, randomness)
            prefix.fill_(0)
            return proposal

    request = Request(torch.tensor([1, 2, 3, 1, 2]), 9)
    tidy, untidy = (
        generate(tiny(), wrap(make_drafter(kind)), request, Seeded(3))
        for wrap in (Wrapper, Scribbler)
    )
    assert untidy == tidy


@pytest.mark.parametrize(
    "verdict, error, says",
    [
        (None, TypeError, "two whole numbers, n_accepted and next_token .* got None"),
        ((1, 2), TypeError, "got .1, 2."),
        (Verdict(0.0, 1), TypeError, "n_accepted=0.0"),  # type: ignore[arg-type]
        (Verdict(0, 1.7), TypeError, "next_token=1.7"),  # type: ignore[arg-type]
        (Verdict(-1, 0), ValueError, "n_accepted must be from 0 to 2, got -1"),
        (Verdict(3, 0), ValueError, "n_accepted must be from 0 to 2, got 3"),
        (Verdict(0, 4), ValueError, "next_token must be from 0 to 3, got 4"),
        (Verdict(0, -1), ValueError, "next_token must be from 0 to 3, got -1"),
    ],
)
def test_a_verdict_that_cannot_be_right_is_named(
    verdict: Any, error: Any, says: str
) -> None:
    """A negative n_accepted would commit drafts from the wrong end."""
    request = Request(torch.tensor([1]), 9, gamma=2, judge=lambda *_: verdict)
    with pytest.raises(error, match=says):
        generate(tiny(), make_drafter("short"), request, Seeded(0))


def test_a_verdict_may_hold_whole_numbers_of_any_type() -> None:
    numbers = torch.tensor(0), torch.tensor(2, dtype=torch.uint8)
    request = Request(torch.tensor([1]), 3, judge=lambda *_: Verdict(*numbers))
    done = generate(tiny(), make_drafter("short"), request, Seeded(0))
    assert done.tokens == (2, 2, 2) and all(type(one) is int for one in done.tokens)

"""Medusa: head k of hidden state i guesses token i + 2 + k, and knows no draw."""

from __future__ import annotations

import torch

from minispec import Sampling
from minispec.drafters.medusa import Medusa, MedusaDrafter

from support.checks import agree
from support.decoding import Scripted, tiny
from support.heads import tiny_head

TARGET = tiny(V=5, n_layer=2)
PREFIX = torch.tensor([0, 1, 4, 2])


def ready(sampling: Sampling = Sampling()) -> MedusaDrafter:
    """A drafter whose target has been through all but the last token."""
    head = tiny_head("medusa", TARGET)
    assert isinstance(head, Medusa)
    drafter, cache = MedusaDrafter(head, TARGET, sampling), TARGET.new_cache()
    drafter.begin(cache)
    TARGET(PREFIX[None, :-1], cache)
    return drafter


def test_the_rows_are_those_of_the_newest_hidden_state() -> None:
    """x + SiLU(W x + b) through the tied head, one row after another, by hand."""
    drafter = ready()
    newest = TARGET.trunk(PREFIX[None, :-1])[0, -1]  # of position n - 2
    expected = []
    for layer in drafter.head.heads:
        inner = newest @ layer.weight + layer.bias  # type: ignore[operator]
        expected.append(newest + inner * inner.sigmoid())
    rows = (torch.stack(expected) @ TARGET.wte.weight.T).softmax(dim=-1)
    for drawn in ([0, 0, 0], [4, 1, 3]):
        proposal = drafter.propose(PREFIX, 3, Scripted(drawn))
        agree(proposal.draft_probs, rows, "The rows are not the heads'.", drawn=drawn)
    agree(drafter.choices(PREFIX), rows, "The choices for trees are not the heads'.")


def test_fresh_heads_say_what_the_targets_own_head_says() -> None:
    head = Medusa(TARGET.config).double().initialize(torch.Generator())
    hidden = TARGET.trunk(PREFIX[None])
    agree(head(hidden), hidden.expand(4, -1, -1), "A fresh head is not the identity.")

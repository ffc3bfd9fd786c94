"""Multi-token prediction: each module chained to the last one and to its draw."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from minispec import Request
from minispec.core.speculative import speculative_round
from minispec.core.text import Text
from minispec.drafters.mtp import MTP

from support.checks import agree
from support.decoding import Scripted, tiny
from support.heads import tiny_head

TARGET = tiny(V=5, n_layer=2)


def row_by_hand(head: MTP, text: list[int], n_real: int) -> Tensor:  # -> [V]
    """What the last module needed says after `text`, without any cache."""
    features = hidden = TARGET.trunk(torch.tensor([text[:n_real]]))
    for k in range(1, len(text) - n_real + 1):
        module = head.modules_ahead[k - 1]
        tokens = torch.tensor([text[k : n_real + k]])
        source = hidden if head.kind == "mtp" else features
        hidden = module(source, TARGET.wte(tokens))
    return TARGET.head(module.ln(hidden))[0, -1].softmax(dim=-1)  # type: ignore


@pytest.mark.parametrize("kind", ["mtp", "independent"])
@pytest.mark.parametrize("accepts", [[True] * 9, [False], [True, False], [True] * 3])
def test_every_row_is_the_modules_own(kind: str, accepts: list[bool]) -> None:
    """Round after round, whatever was accepted, and with fewer drafts in between."""
    head = tiny_head(kind, TARGET)
    assert isinstance(head, MTP)
    drafter, chance = head.drafter(TARGET), Scripted(accepts=accepts * 30)
    text, n_rounds = Text(Request(torch.tensor([0, 1]), 17), TARGET), 0
    drafter.begin(text.cache)
    while text.finish_reason is None:
        before, gamma = text.prefix.tolist(), 3 - n_rounds % 3
        done = speculative_round(TARGET, drafter, text, text.n_drafts(gamma), chance)
        assert done.rows is not None
        for i, row in enumerate(done.rows.draft_probs):
            so_far = [*before, *done.tokens[:i]]
            expected = row_by_hand(head, so_far, len(before) - 1)
            agree(row, expected, "A draft's row is not its module's.", text=so_far)
        n_rounds += 1
    assert n_rounds > 4

"""Two distributions as bars, in numbers: what they share, and what each has beyond.

    overlap    min(wanted, given)        what drafting can give
    residual   max(0, wanted - given)    resampled after a rejection, normalised
    surplus    max(0, given - wanted)    drafted too often: the chance of a rejection

Each token has an overlap and at most one of the other two, so one bar shows it. The
tokens shown are few; the rest of the vocabulary is one bar more, so that the sums over
the picture are those over whole rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from minispec.files.tokenizer import Tokenizer
from minispec.show.odds import Try
from minispec.show.terminal import quoted

N_SHOWN = 7  # tokens of a picture, beside the one it is about


def try_picture(one: Try, token: int, tokenizer: Tokenizer) -> dict[str, Any]:
    """The rows of a try, at the tokens that either finds most probable."""
    tokens = most_probable(torch.maximum(one.wanted, one.given), N_SHOWN, token)
    return picture(one.wanted, one.given, tokens, token, tokenizer)


def draw_picture(
    end: Try | None, row: Tensor, drawn: int, tokenizer: Tokenizer
) -> dict[str, Any]:
    """`row` [V] that the token after the drafts was drawn from, and what it is of.

    If it is the residual of the rows where drafting ended, they are shown too. Else it
    stands alone: nothing was drafted that it could be compared with.
    """
    tokens = most_probable(row, N_SHOWN, drawn)
    wanted, given = (end.wanted, end.given) if end else (row, torch.zeros_like(row))
    found = picture(wanted, given, tokens, drawn, tokenizer)
    for bar, token in zip(found["bars"], tokens):
        bar["prob"] = row[token].item()
    found["others"]["prob"] = max(0.0, 1 - sum(bar["prob"] for bar in found["bars"]))
    return found


def picture(
    wanted: Tensor, given: Tensor, tokens: list[int], about: int, tokenizer: Tokenizer
) -> dict[str, Any]:  # [V], [V]
    """Sums over the whole rows, a bar for each token, and one for all others."""
    wanted, given = wanted.double().cpu(), given.double().cpu()
    others = (wanted > 0) | (given > 0)
    others[tokens] = False
    bars = [
        {
            "token": quoted(tokenizer, token),
            "about": token == about,
            **shares(wanted[token], given[token]),
        }
        for token in tokens
    ]
    rest = {"n": int(others.sum()), **shares(wanted[others], given[others])}
    return {"bars": bars, "others": rest, **shares(wanted, given)}


def shares(wanted: Tensor, given: Tensor) -> dict[str, float]:
    """How much of the two is shared, wanted beyond, and given beyond: sums."""
    return {
        "overlap": torch.minimum(wanted, given).sum().item(),
        "residual": (wanted - given).clamp(min=0).sum().item(),
        "surplus": (given - wanted).clamp(min=0).sum().item(),
    }


def most_probable(row: Tensor, n: int, also: int) -> list[int]:  # [V]
    """The n tokens of highest probability, none of probability 0; and one more."""
    probs, tokens = torch.topk(row, min(n, len(row)))
    found: list[int] = tokens[probs > 0].tolist()
    return found if also in found else [*found, also]

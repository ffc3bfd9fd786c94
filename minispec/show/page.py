"""A recorded decode as one HTML page on which it can be stepped through.

    rounds --PageData--> numbers and texts --render--> one file

`page.html` is the frame and `.css` the looks; `.parts.js` makes the parts of a round,
`.says.js` the sentences, and `.js` steps. All of it and the data go into one file,
which loads nothing: it can be mailed, printed, and opened from disk. The page only
shows numbers that are computed here, by the same code as anywhere else.

No text of a prompt or a model is ever markup: it stands in the file as JSON without a
single "<", and reaches the page as text nodes. As a second wall, the page's policy
names the hashes of its own script and style: the browser runs and applies no other.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minispec.core.rounds import Generation, Round
from minispec.files.tokenizer import StreamDecoder, Tokenizer
from minispec.show.recording import Recorded, last_row, ratios
from minispec.show.speed import Speed
from minispec.show.terminal import fates, labels, quoted

N_TOP = 5  # tokens shown of the row that was drawn from
LARGEST = 1e6  # a ratio beyond says no more, and JSON has no infinity


class PageData:
    """All that the page shows, gathered round by round."""

    def __init__(
        self, prompt: str, n_prompt: int, tokenizer: Tokenizer, eos_ids: Collection[int]
    ) -> None:
        """`n_prompt` is the prompt's length in tokens."""
        self._prompt, self._length = prompt, n_prompt
        self._tokenizer, self._hidden = tokenizer, eos_ids
        self._decoder = StreamDecoder(tokenizer)
        self._rounds: list[dict[str, Any]] = []

    def add(self, one: Round, recorded: Recorded, so_far: Generation) -> None:
        """A round with its rows; `so_far` ends with it."""
        self._length += len(one.committed)
        before, reached, after = recorded.before, recorded.reached, recorded.after
        caches = dict(zip(("target", "draft"), zip(before, reached, after)))
        self._rounds.append(
            {
                "drafted": drafted_data(one, recorded, self._tokenizer),
                "text": [self._piece(*labelled) for labelled in labels(one)],
                "draw": draw_data(one, recorded, self._tokenizer),
                "committed": self._length,
                "caches": {k: v if None not in v else None for k, v in caches.items()},
                "totals": totals_data(so_far),
                "finish_reason": one.finish_reason,
            }
        )

    def finish(
        self,
        text: str,
        finish_reason: str | None,
        generation: Generation,
        speed: Speed,
        settings: Mapping[str, str],
    ) -> dict[str, Any]:
        """The whole. `text` may end before the last tokens do, at a stop text."""
        pieces = [piece for one in self._rounds for piece in one["text"]]
        if pieces:  # a character begun and never finished
            pieces[-1]["text"] += self._decoder.flush()
            self._rounds[-1]["finish_reason"] = finish_reason
        room = len(text)
        for piece in pieces:
            piece["text"] = piece["text"][:room]
            room -= len(piece["text"])
        return {
            "prompt": self._prompt,
            "rounds": self._rounds,
            "finish_reason": finish_reason,
            "totals": totals_data(generation),
            "acceptance_by_position": generation.acceptance_by_position,
            "speed": asdict(speed),
            "settings": dict(settings),
        }

    def _piece(self, token: int, label: str) -> dict[str, str]:
        """The text that a committed token added, and what it is. An EOS adds none."""
        text = "" if token in self._hidden else self._decoder.push([token])
        return {"text": text, "label": label}


def totals_data(generation: Generation) -> dict[str, float | None]:
    """The running totals."""
    return {
        "target_forwards": generation.target_forwards,
        "emitted": generation.emitted,
        "drafted": generation.drafted,
        "judged": generation.judged,
        "accepted": generation.accepted,
        "acceptance_rate": generation.acceptance_rate,
        "tokens_per_target_forward": generation.tokens_per_target_forward,
    }


def drafted_data(
    one: Round, recorded: Recorded, tokenizer: Tokenizer
) -> list[dict[str, Any]]:
    """Each draft: what it is, its odds, the draw if one was made, its fate."""
    odds, found = ratios(one), fates(one)

    def draft(i: int, token: int) -> dict[str, Any]:
        assert one.rows is not None
        return {
            "token": quoted(tokenizer, token),
            "draft_prob": one.rows.draft_probs[i, token].item(),
            "target_prob": one.rows.target_probs[i, token].item(),
            "ratio": min(odds[i], LARGEST),
            "draw": recorded.draws[i] if i < len(recorded.draws) else None,
            "fate": found[i],
        }

    return [draft(i, token) for i, token in enumerate(one.tokens)]


def draw_data(one: Round, recorded: Recorded, tokenizer: Tokenizer) -> dict[str, Any]:
    """The row that the token after the drafts was drawn from, and what came out."""
    n_passed = sum(u < ratio for u, ratio in zip(recorded.draws, ratios(one)))
    row, drawn = last_row(one, n_passed), recorded.drawn
    top = most_probable(row, N_TOP)
    if drawn not in dict(top):
        top.append((drawn, row[drawn].item()))
    full = "bonus" if one.tokens else "plain"
    return {
        "kind": full if n_passed == len(one.tokens) else "residual",
        "token": quoted(tokenizer, drawn),
        "kept": one.extra is not None,  # else the text had ended before it
        "top": [
            {"token": quoted(tokenizer, t), "prob": p, "drawn": t == drawn}
            for t, p in top
        ],
    }


def most_probable(row: Tensor, n: int) -> list[tuple[int, float]]:  # [V]
    """The n tokens of highest probability, with it; those of none are left out."""
    probs, tokens = torch.topk(row, min(n, len(row)))
    return [(t, p) for t, p in zip(tokens.tolist(), probs.tolist()) if p > 0]


def render(data: Mapping[str, Any]) -> str:
    """The page as one HTML text."""
    style = part(".css")
    script = "\n".join(['"use strict";', *map(part, (".parts.js", ".says.js", ".js"))])
    # In JSON a "<" stands only inside a string, where it may be written as an escape:
    # then no text can end the script element that holds it.
    embedded = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    page = part(".html").replace("{{style-hash}}", content_hash(style))
    page = page.replace("{{script-hash}}", content_hash(script))
    page = page.replace("{{style}}", style).replace("{{script}}", script)
    return page.replace("{{data}}", embedded)  # last: nothing in it is replaced


def part(suffix: str) -> str:
    """A part of the page, as it lies beside this file."""
    return Path(__file__).with_suffix(suffix).read_text(encoding="utf-8")


def content_hash(text: str) -> str:
    """As a Content-Security-Policy names the content of an element."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode()

"""A recorded decode as one HTML page on which it can be stepped through.

    rounds --PageData--> numbers and texts --render--> one file

`page.html` is the frame and `.css` the looks; `.parts.js` makes elements, `.bars.js`
pictures of two distributions, `.round.js` the tree and the rest of a round, `.says.js`
the sentences, and `.js` steps. All of it and the data go into one file,
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
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from minispec.core.rejection import Judge
from minispec.core.rounds import Generation, Round
from minispec.core.sampling import Sampling
from minispec.core.text import Request
from minispec.files.tokenizer import StreamDecoder, Tokenizer
from minispec.show.odds import Try, judging_of, kind_of, tries_of, turned_down
from minispec.show.picture import draw_picture, try_picture
from minispec.show.recording import Recorded
from minispec.show.speed import Speed
from minispec.show.terminal import fates, labels, parents_of, quoted
from minispec.trees.choices import is_greedy
from minispec.trees.rounds import TreeRound

LARGEST = 1e6  # a chance beyond says no more, and JSON has no infinity
PARTS = (".parts.js", ".bars.js", ".round.js", ".says.js", ".js")


class PageData:
    """All that the page shows, gathered round by round."""

    def __init__(self, prompt: str, request: Request, tokenizer: Tokenizer) -> None:
        """`prompt` is the text of the request's."""
        self._prompt, self._length = prompt, len(request.prompt)
        self._request, self._tokenizer = request, tokenizer
        self._decoder = StreamDecoder(tokenizer)
        self._rounds: list[dict[str, Any]] = []

    def add(self, one: Round, recorded: Recorded, so_far: Generation) -> None:
        """A round with its rows; `so_far` ends with it."""
        self._length += len(one.committed)
        judge, tokenizer = self._request.judge, self._tokenizer
        tries = tries_of(one, recorded, judge)
        path = one.path if isinstance(one, TreeRound) else range(one.n_accepted)
        before, reached, after = recorded.before, recorded.reached, recorded.after
        caches = dict(zip(("target", "draft"), zip(before, reached, after)))
        self._rounds.append(
            {
                "judging": judging_of(one, recorded, judge),
                "drafted": drafted_data(one, tries, judge, tokenizer),
                "path": list(path),
                "tries": [try_data(one, a_try, tokenizer) for a_try in tries],
                "text": [self._piece(*labelled) for labelled in labels(one)],
                "draw": draw_data(one, recorded, tries, tokenizer),
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
            "certain": certain(self._request.sampling),
            "rounds": self._rounds,
            "finish_reason": finish_reason,
            "totals": totals_data(generation),
            "acceptance_by_position": generation.acceptance_by_position,
            "speed": asdict(speed),
            "settings": dict(settings),
        }

    def _piece(self, token: int, label: str) -> dict[str, str]:
        """The text that a committed token added, and what it is. An EOS adds none."""
        is_eos = token in self._request.sampling.eos_ids
        text = "" if is_eos else self._decoder.push([token])
        return {"text": text, "label": label}


def certain(sampling: Sampling) -> str | None:
    """Why each of the target's rows has all its mass on one token, if it has."""
    if is_greedy(sampling):
        return "greedy"
    return None if sampling.noise_seed is None else "coupled"


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
    one: Round, tries: Sequence[Try], judge: Judge, tokenizer: Tokenizer
) -> list[dict[str, Any]]:
    """Each draft: what it is, what it continues, its fate, the step that tells it."""
    steps = {a_try.node: step for step, a_try in enumerate(tries, start=1)}
    found = fates(one, judge)
    return [
        {
            "token": quoted(tokenizer, token),
            "parent": parent,
            "fate": found[i],
            "step": steps.get(i, len(tries)),
        }
        for i, (token, parent) in enumerate(zip(one.tokens, parents_of(one)))
    ]


def try_data(one: Round, a_try: Try, tokenizer: Tokenizer) -> dict[str, Any]:
    """One try: the trial as it was, and the two rows as a picture."""
    trial = a_try.trial
    return {
        "node": a_try.node,
        "chance": trial and min(trial.chance, LARGEST),
        "draw": trial and trial.draw,
        "passed": a_try.passed,
        "siblings": a_try.n_siblings,
        "picture": try_picture(a_try, one.tokens[a_try.node], tokenizer),
    }


def draw_data(
    one: Round, recorded: Recorded, tries: Sequence[Try], tokenizer: Tokenizer
) -> dict[str, Any]:
    """The token after the drafts, and a picture of what it was drawn from."""
    row, drawn = recorded.row, recorded.drawn
    assert row is not None
    end = turned_down(one, tries, recorded.n_kept)
    kind = kind_of(one, end, row)
    compared = end if kind == "residual" else None
    return {
        "kind": kind,
        "after": end and end.node,  # the draft in whose place it comes
        "token": quoted(tokenizer, drawn),
        "kept": one.extra is not None,  # else the text had ended before it
        "picture": draw_picture(compared, row, drawn, tokenizer),
    }


def render(data: Mapping[str, Any]) -> str:
    """The page as one HTML text."""
    style = part(".css")
    script = "\n".join(['"use strict";', *map(part, PARTS)])
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

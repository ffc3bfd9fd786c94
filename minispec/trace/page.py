"""A recorded decode as one HTML page on which it can be stepped through.

    recorded rounds --trace_data--> numbers and texts --render--> one file

`page.html` is the frame and `.css` the looks; `.parts.js` makes the parts of a
round, `.says.js` the sentences, and `.js` steps. All of it and the data go into one
file, which loads nothing: it can be mailed, printed, and opened from
disk. The page only shows numbers that are computed here, by the same code as anywhere
else. No text of a prompt or a model is ever markup: it stands in the file as JSON
without a single "<", and reaches the page as text nodes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from minispec.generation import DraftedToken, Generation
from minispec.stopping import FinishReason
from minispec.tokenizer import StreamDecoder, Tokenizer
from minispec.trace import labels, quoted
from minispec.trace.recording import Recorded, most_probable
from minispec.trace.speed import Speed

N_TOP = 5  # tokens shown of the row that was drawn from
LARGEST = 1e6  # a ratio beyond says no more, and infinity is no JSON


def trace_data(
    prompt: str,
    n_prompt: int,
    rounds: Sequence[Recorded],
    finish_reason: FinishReason,
    speed: Speed,
    settings: Mapping[str, str],
    tokenizer: Tokenizer,
    eos_ids: Collection[int] = (),
) -> dict[str, Any]:
    """All that the page shows. `n_prompt` is the prompt's length in tokens."""
    decoder = StreamDecoder(tokenizer)
    shown: list[dict[str, Any]] = []
    for i, recorded in enumerate(rounds):
        so_far = generation_of(rounds[: i + 1], finish_reason)
        shown.append(
            {
                "drafted": drafted_data(recorded, tokenizer),
                "text": text_data(recorded, decoder, eos_ids),
                "draw": draw_data(recorded, tokenizer),
                "committed": n_prompt + so_far.emitted,
                "caches": caches_data(recorded),
                "totals": totals_data(so_far),
                "finish_reason": recorded.round.finish_reason,
            }
        )
    if shown:  # a character begun and never finished
        shown[-1]["text"][-1]["text"] += decoder.flush()
    return {
        "prompt": prompt,
        "rounds": shown,
        "finish_reason": finish_reason,
        "totals": totals_data(generation_of(rounds, finish_reason)),
        "speed": asdict(speed),
        "settings": dict(settings),
    }


def generation_of(
    rounds: Sequence[Recorded], finish_reason: FinishReason
) -> Generation:
    """The rounds as a `Generation`, which knows the statistics."""
    plain = tuple(recorded.round for recorded in rounds)
    tokens = tuple(token for round in plain for token in round.committed)
    return Generation(tokens, finish_reason, plain)


def totals_data(generation: Generation) -> dict[str, float | None]:
    """The running totals."""
    return {
        "target_forwards": generation.target_forwards,
        "emitted": generation.emitted,
        "drafted": generation.drafted,
        "accepted": generation.accepted,
        "acceptance_rate": generation.acceptance_rate,
        "tokens_per_target_forward": generation.tokens_per_target_forward,
    }


def drafted_data(recorded: Recorded, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """Each proposal: what it is, its odds, the draw if one was made, its fate."""

    def one(i: int, drafted: DraftedToken) -> dict[str, Any]:
        return {
            "token": quoted(tokenizer, drafted.token),
            "draft_prob": drafted.draft_prob,
            "target_prob": drafted.target_prob,
            "ratio": min(recorded.ratios[i], LARGEST),
            "draw": recorded.draws[i] if i < len(recorded.draws) else None,
            "fate": drafted.fate,
        }

    return [one(i, drafted) for i, drafted in enumerate(recorded.round.drafted)]


def text_data(
    recorded: Recorded, decoder: StreamDecoder, eos_ids: Collection[int]
) -> list[dict[str, str]]:
    """Each committed token: the text it added, and what it is. An EOS adds none."""
    return [
        {"text": "" if token in eos_ids else decoder.push([token]), "label": label}
        for token, label in labels(recorded.round)
    ]


def draw_data(recorded: Recorded, tokenizer: Tokenizer) -> dict[str, Any]:
    """The row that the token after the drafts was drawn from, and what came out."""
    n_accepted = sum(u < r for u, r in zip(recorded.draws, recorded.ratios))
    if not recorded.ratios:
        kind = "plain"
    else:
        kind = "bonus" if n_accepted == len(recorded.ratios) else "residual"
    top = most_probable(recorded.last_row, N_TOP)
    drawn = recorded.last_token
    if drawn not in dict(top):
        top.append((drawn, recorded.last_row[drawn].item()))
    return {
        "kind": kind,
        "token": quoted(tokenizer, drawn),
        "kept": recorded.round.extra is not None,  # else the text had ended before it
        "top": [
            {"token": quoted(tokenizer, t), "prob": p, "drawn": t == drawn}
            for t, p in top
        ],
    }


def caches_data(recorded: Recorded) -> dict[str, list[int] | None]:
    """Of each cache: its length before the round, after verifying, after rollback."""
    stages = (recorded.before, recorded.reached, recorded.after)
    draft = [stage.draft for stage in stages if stage.draft is not None]
    return {"target": [stage.target for stage in stages], "draft": draft or None}


def render(data: Mapping[str, Any]) -> str:
    """The page as one HTML text."""
    here = Path(__file__)

    def part(suffix: str) -> str:
        return here.with_suffix(suffix).read_text(encoding="utf-8")

    # In JSON a "<" stands only inside a string, where it may be written as an escape:
    # then no text can end the script element that holds it.
    embedded = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    page = part(".html").replace("{{style}}", part(".css"))
    script = "\n".join(map(part, (".parts.js", ".says.js", ".js")))
    page = page.replace("{{script}}", script)
    return page.replace("{{data}}", embedded)  # last: nothing in it is replaced

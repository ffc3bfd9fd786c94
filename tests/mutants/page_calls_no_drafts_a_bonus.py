"""On the page, the draw of a round without drafts is called a bonus.

Made by whoever compares 0 accepted with 0 drafted (inference).
"""

from typing import Any

from minispec.tokenizer import Tokenizer
from minispec.trace import quoted
from minispec.trace.page import N_TOP
from minispec.trace.recording import Recorded, most_probable

REPLACES = "trace/page.py:draw_data"
CAUGHT_BY = ["test_trace_page.py"]


def draw_data(recorded: Recorded, tokenizer: Tokenizer) -> dict[str, Any]:
    n_accepted = sum(u < r for u, r in zip(recorded.draws, recorded.ratios))
    top = most_probable(recorded.last_row, N_TOP)
    drawn = recorded.last_token
    if drawn not in dict(top):
        top.append((drawn, recorded.last_row[drawn].item()))
    return {
        "kind": "bonus" if n_accepted == len(recorded.ratios) else "residual",
        "token": quoted(tokenizer, drawn),
        "kept": recorded.round.extra is not None,
        "top": [
            {"token": quoted(tokenizer, t), "prob": p, "drawn": t == drawn}
            for t, p in top
        ],
    }

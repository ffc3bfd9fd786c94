"""Each draft is shown with the draw of the next one.

Made by whoever counts draws from 1 (inference).
"""

from typing import Any

from minispec.tokenizer import Tokenizer
from minispec.trace import quoted
from minispec.trace.page import LARGEST
from minispec.trace.recording import Recorded

REPLACES = "trace/page.py:drafted_data"
CAUGHT_BY = ["test_trace_page.py"]


def drafted_data(recorded: Recorded, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    draws = [*recorded.draws[1:], *[None] * len(recorded.ratios)]
    return [
        {
            "token": quoted(tokenizer, drafted.token),
            "draft_prob": drafted.draft_prob,
            "target_prob": drafted.target_prob,
            "ratio": min(ratio, LARGEST),
            "draw": draw,
            "fate": drafted.fate,
        }
        for drafted, ratio, draw in zip(recorded.round.drafted, recorded.ratios, draws)
    ]

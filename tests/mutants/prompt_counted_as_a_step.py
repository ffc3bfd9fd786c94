"""The costs include the first pass, which read the whole prompt.

Made by whoever takes medians over all rounds of a short decode (inference).
"""

from collections.abc import Sequence
from statistics import median

from minispec.trace.recording import Recorded

REPLACES = "trace/speed.py:cost_ratios"
CAUGHT_BY = ["test_recording.py"]


def cost_ratios(
    rounds: Sequence[Recorded], alone: Sequence[float]
) -> tuple[float, float] | None:
    drafting = [r.draft_seconds / len(r.ratios) for r in rounds if r.ratios]
    if not drafting or not alone:
        return None
    step = sum(alone) / len(alone)
    checking = median(r.seconds - r.draft_seconds for r in rounds)
    return median(drafting) / step, checking / step

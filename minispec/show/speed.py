"""The speed of one decode: as the analysis predicts it, and as the clock shows it.

The clock gives the costs of `analysis.py`, over one step of the target alone:

    c   what a draft step takes, in a tree a level
    v   what verifying takes: one pass over all drafts and a token more, and rejection

With alpha, the share of judged drafts that were accepted, they give the speed-up to
expect. It differs from the measured one in one assumption: that every draft is as
likely to be accepted as any other. With v = 1 it is the paper's, as if verifying took
no longer than one step.

The first pass reads the whole prompt, so it counts in the measured speed of both and in
none of the costs. Each is timed once: the figures vary on a busy machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from minispec.core.analysis import expected_tokens, round_speedup
from minispec.core.rounds import Generation
from minispec.show.recording import Recorded


@dataclass(frozen=True)
class Speed:
    """Pure numbers, and None where the decode was too short to tell."""

    measured: float | None  # tokens per second over those of the target alone
    predicted: float | None
    predicted_if_flat: float | None  # v = 1
    alpha: float | None
    cost_ratio: float | None  # c
    verify_cost: float | None  # v
    tokens_per_s: float | None
    target_alone_tokens_per_s: float | None


def speed_of(
    generation: Generation, recorded: Sequence[Recorded], alone: Sequence[float]
) -> Speed:
    """From a decode as recorded, and the seconds of each step of the target alone."""
    fast = rate(generation.emitted, sum(one.seconds for one in recorded))
    slow = rate(len(alone), sum(alone))
    measured = fast / slow if fast and slow else None
    # Not the gamma asked for: a drafter may guess less, and does near the end.
    drafted = [one.depth for one in generation.rounds]
    alpha, costs = generation.acceptance_rate, cost_ratios(drafted, recorded, alone)
    if costs is None or alpha is None:
        return Speed(measured, None, None, alpha, None, None, fast, slow)
    c, v = costs
    tokens = fmean(expected_tokens(alpha, K) for K in drafted)
    predicted = round_speedup(tokens, fmean(drafted), c, v)
    if_flat = round_speedup(tokens, fmean(drafted), c)
    return Speed(measured, predicted, if_flat, alpha, c, v, fast, slow)


def cost_ratios(
    drafted: Sequence[int], recorded: Sequence[Recorded], alone: Sequence[float]
) -> tuple[float, float] | None:
    """c and v as medians, without the pass over the prompt; None if nothing is left."""
    later = recorded[1:]
    drafting = [one.draft_seconds / K for one, K in zip(later, drafted[1:]) if K]
    if not drafting or not alone[1:]:
        return None
    step = median(alone[1:])
    checking = median(one.seconds - one.draft_seconds for one in later)
    return median(drafting) / step, checking / step


def rate(n_tokens: int, seconds: float) -> float | None:
    """Tokens per second; None without tokens."""
    return n_tokens / seconds if n_tokens and seconds else None

"""From the runs that `benchmark.py` timed to medians, ratios and forecasts."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field

from benchmark_costs import Costs
from benchmark_methods import (
    ASSISTED,
    ASSISTED_DEFAULTS,
    BASELINE,
    PLAIN_TRANSFORMERS,
    SPECULATIVE,
    Decoded,
    Method,
)
from timing import Sample

from minispec import analysis
from minispec.generation import Generation


@dataclass
class Results:
    """All that was measured so far; a run that is stopped leaves it half full."""

    methods: list[Method]
    costs: dict[float, Costs] = field(default_factory=dict)  # by temperature
    samples: dict[float, list[Sample]] = field(default_factory=dict)
    complete: bool = False


@dataclass(frozen=True)
class Row:
    """One method at one temperature. None where a figure does not apply."""

    temperature: float
    method: str
    gamma: int | None
    tokens_per_s: float  # median over the repeats
    speedup: float | None  # over the target alone, median of the repeats' ratios
    all_tokens_per_s: tuple[float, ...]  # by repeat
    same_text: bool | None = None  # as the target alone; at temperature 0 only
    acceptance_rate: float | None = None  # alpha
    tokens_per_round: float | None = None
    drafted_per_round: float | None = None
    predicted: float | None = None  # speed-up from alpha and the costs
    predicted_by_rounds: float | None = None  # from counted rounds and the costs


def rows_of(results: Results) -> list[Row]:
    """Every method that ran at least once, at every temperature."""
    return [
        row_of(method, temperature, results)
        for temperature, samples in results.samples.items()
        for method in results.methods
        if any(sample.name == method.name for sample in samples)
    ]


def row_of(method: Method, temperature: float, results: Results) -> Row:
    """One method's medians, and for the draft model the forecasts."""
    samples = results.samples[temperature]
    mine = {s.repeat: s for s in samples if s.name == method.name}
    base = {s.repeat: s for s in samples if s.name == BASELINE}
    ratios = [base[r].seconds / mine[r].seconds for r in mine if r in base]
    rates = tuple(rate_of(sample) for sample in mine.values())
    both = [(texts_of(mine[r]), texts_of(base[r])) for r in mine if r in base]
    return Row(
        temperature,
        method.kind,
        method.gamma,
        statistics.median(rates),
        statistics.median(ratios) if ratios else None,
        rates,
        all(a == b for a, b in both) if temperature == 0 and both else None,
        **round_figures(method, list(mine.values()), results.costs[temperature]),
    )


def round_figures(
    method: Method, samples: list[Sample], costs: Costs
) -> dict[str, float | None]:
    """Alpha, counts per round, and the two forecasts; nothing without rounds."""
    decodes = [decoded for sample in samples for decoded in decoded_by(sample)]
    tokens = tuple(token for decoded in decodes for token in decoded.tokens)
    rounds = tuple(round for decoded in decodes for round in decoded.rounds)
    pooled = Generation(tokens, "length", rounds)
    if not rounds:
        return {}
    per_round = pooled.emitted / len(rounds)
    drafted = pooled.drafted / len(rounds)
    alpha = pooled.acceptance_rate
    figures = {
        "acceptance_rate": alpha,
        "tokens_per_round": per_round,
        "drafted_per_round": drafted,
    }
    if method.kind == SPECULATIVE and method.gamma and alpha is not None:
        c, v = costs.cost_ratio, costs.verify_cost(method.gamma)
        figures["predicted"] = analysis.expected_speedup(alpha, method.gamma, c, v)
        figures["predicted_by_rounds"] = analysis.round_speedup(
            per_round, drafted, c, v
        )
    return figures


def decoded_by(sample: Sample) -> list[Decoded]:
    """The texts one sample made."""
    assert isinstance(sample.result, list)
    return sample.result


def texts_of(sample: Sample) -> list[tuple[int, ...]]:
    return [decoded.tokens for decoded in decoded_by(sample)]


def rate_of(sample: Sample) -> float:
    """Tokens per second over all prompts."""
    return sum(map(len, texts_of(sample))) / sample.seconds


def summary(rows: list[Row], temperature: float) -> dict[str, float]:
    """The four figures that matter, of those that were measured."""
    here = [row for row in rows if row.temperature == temperature]

    def best(*kinds: str) -> Row | None:
        mine = [row for row in here if row.method in kinds]
        return max(mine, key=lambda row: row.tokens_per_s, default=None)

    def over(row: Row | None, other: Row | None) -> float | None:
        return row.tokens_per_s / other.tokens_per_s if row and other else None

    ours, alone = best(SPECULATIVE), best(BASELINE)
    off = [abs(r.speedup / r.predicted - 1) for r in here if r.predicted and r.speedup]
    figures = {
        "best speculative / target alone": ours.speedup if ours else None,
        "target alone / transformers generate": over(alone, best(PLAIN_TRANSFORMERS)),
        "best speculative / best transformers assisted": over(
            ours, best(ASSISTED, ASSISTED_DEFAULTS)
        ),
        "largest |measured / predicted - 1|": max(off, default=None),
    }
    return {name: value for name, value in figures.items() if value is not None}

"""The tables and the JSON that `benchmark.py` writes."""

from __future__ import annotations

import json
from dataclasses import asdict

from benchmark_costs import Costs
from benchmark_figures import Results, Row, summary
from timing import machine


def report(results: Results, rows: list[Row]) -> str:
    """All tables as text."""
    parts = ["" if results.complete else "stopped early: partial figures"]
    parts += [", ".join(f"{k} {v}" for k, v in machine().items())]
    for temperature, costs in results.costs.items():
        parts += ["", f"temperature {temperature:g}", *cost_lines(costs)]
        here = [row for row in rows if row.temperature == temperature]
        if here:
            parts += ["", *speed_lines(here), "", *forecast_lines(here), ""]
            figures = summary(rows, temperature).items()
            parts += [f"  {name:<46} {value:.2f}" for name, value in figures]
    return "\n".join(parts).strip()


def cost_lines(costs: Costs) -> list[str]:
    """Milliseconds, and what that is in steps of the target."""
    parts = {"target step": costs.step, "draft step": costs.draft_step}
    parts |= {f"round without drafting, K = {K}": s for K, s in costs.verify.items()}
    return [
        f"  costs over a cache of {costs.context}           ms   target steps",
        *(f"  {k:<32} {1e3 * s:7.3f}  {s / costs.step:7.3f}" for k, s in parts.items()),
    ]


def speed_lines(rows: list[Row]) -> list[str]:
    """Tokens per second of every method."""
    lines = [f"  {'':<32} {'gamma':>5} {'tokens/s':>9} {'times':>6}  text"]
    words = {None: "", True: "the target's", False: "differs: rounding at a near tie"}
    for row in rows:
        lines.append(
            f"  {row.method:<32} {row.gamma or '':>5} {row.tokens_per_s:9.1f} "
            f"{number(row.speedup):>6}  {words[row.same_text]}".rstrip()
        )
    return lines


def forecast_lines(rows: list[Row]) -> list[str]:
    """Measured speed-ups beside those foretold, for methods that make rounds."""
    heads = ["alpha", "t/round", "measured", "predicted", "off", "by rounds"]
    lines = [f"  {'':<16} {'gamma':>5} " + " ".join(f"{head:>9}" for head in heads)]
    for row in rows:
        if row.tokens_per_round is None:
            continue
        off = ""
        if row.predicted and row.speedup:
            off = f"{row.speedup / row.predicted - 1:+.0%}"
        cells = [
            number(row.acceptance_rate),
            number(row.tokens_per_round),
            number(row.speedup),
            number(row.predicted),
            off,
            number(row.predicted_by_rounds),
        ]
        lines.append(
            f"  {row.method:<16} {row.gamma or '':>5} "
            + " ".join(f"{cell:>9}" for cell in cells)
        )
    return lines


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def as_json(results: Results, rows: list[Row], setting: dict[str, object]) -> str:
    """Everything the tables show and what they were made from."""
    return json.dumps(
        {
            "complete": results.complete,
            "machine": machine(),
            "setting": setting,
            "costs_s": {f"{t:g}": asdict(costs) for t, costs in results.costs.items()},
            "methods": [asdict(row) for row in rows],
            "summary": {f"{t:g}": summary(rows, t) for t in results.samples},
        },
        indent=2,
        default=str,
    )

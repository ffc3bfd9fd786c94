"""From the runs that `benchmark.py` timed to medians, predictions and tables."""

from __future__ import annotations

import os
import platform
import statistics
from typing import Any

import torch
from benchmark_methods import BASELINE, SPECULATIVE, Costs, Method, Sample

from minispec.core import analysis
from minispec.core.rounds import Generation

COLUMNS = {
    "tokens_per_s": "tokens/s",
    "speedup": "speed-up",
    "acceptance_rate": "alpha",
    "tokens_per_round": "t/round",
    "predicted": "predicted",
    "predicted_by_rounds": "by rounds",
}
Row = dict[str, Any]


def row_of(method: Method, temperature: float, samples: list[Sample]) -> Row:
    """One method's figures at one temperature: medians, and means over all rounds."""
    mine = {s.repeat: s for s in samples if s.name == method.name}
    base = {s.repeat: s for s in samples if s.name == BASELINE}
    ratios = [base[r].seconds / mine[r].seconds for r in mine]
    row: Row = {
        "temperature": temperature,
        "method": method.kind,
        "gamma": method.gamma,
        "tokens_per_s": statistics.median(map(rate_of, mine.values())),
        "speedup": statistics.median(ratios),
    }
    if temperature == 0:
        row["same_text"] = all(texts_of(base[r]) == texts_of(mine[r]) for r in mine)
    decodes = [decoded for sample in mine.values() for decoded in sample.result]
    whole = Generation(tuple(one for decoded in decodes for one in decoded.rounds))
    if whole.rounds:
        row["acceptance_rate"] = whole.acceptance_rate
        row["acceptance_by_position"] = whole.acceptance_by_position
        row["tokens_per_round"] = whole.tokens_per_target_forward
        row["drafted_per_round"] = whole.drafted / len(whole.rounds)
    return row


def predict(row: Row, costs: Costs) -> None:
    """Add the speed-ups that follow from the acceptance and the costs."""
    alpha, gamma = row.get("acceptance_rate"), row["gamma"]
    if row["method"] != SPECULATIVE or alpha is None:
        return
    c, v = costs.draft_step / costs.verify[0], costs.verify[gamma] / costs.verify[0]
    row["predicted"] = analysis.expected_speedup(alpha, gamma, c, v)
    row["predicted_by_rounds"] = analysis.round_speedup(
        row["tokens_per_round"], row["drafted_per_round"], c, v
    )


def texts_of(sample: Sample) -> list[tuple[int, ...]]:
    return [decoded.tokens for decoded in sample.result]


def rate_of(sample: Sample) -> float:
    """Tokens per second over all prompts."""
    return sum(map(len, texts_of(sample))) / sample.seconds


def report(costs: dict[float, Costs], rows: list[Row]) -> str:
    """All tables as text."""
    parts = [", ".join(f"{k} {v}" for k, v in machine().items())]
    for temperature, here in costs.items():
        parts += ["", f"temperature {temperature:g}", *cost_lines(here), ""]
        parts += [f"  {'':30}" + "".join(f"{head:>10}" for head in COLUMNS.values())]
        parts += [line_of(row) for row in rows if row["temperature"] == temperature]
    return "\n".join(parts)


def cost_lines(costs: Costs) -> list[str]:
    """Milliseconds, and what that is in steps of the target."""
    parts, step = {"draft step": costs.draft_step}, costs.verify[0]
    parts |= {f"verify and reject K = {K}": s for K, s in costs.verify.items()}
    return [
        f"  {f'costs over a cache of {costs.context}':30}        ms  target steps",
        *(f"  {k:30}{1e3 * s:10.3f}{s / step:14.3f}" for k, s in parts.items()),
    ]


def line_of(row: Row) -> str:
    """How fast, how many times the target alone, and what was predicted."""
    name = row["method"] + (f", gamma {row['gamma']}" if row["gamma"] else "")
    cells = [f"{row[key]:.2f}" if row.get(key) else "" for key in COLUMNS]
    odd = "" if row.get("same_text", True) else "  other text: rounding at a near tie"
    return f"  {name:30}{''.join(f'{cell:>10}' for cell in cells)}".rstrip() + odd


def machine() -> dict[str, str | int]:
    """What the figures were measured on."""
    return {
        "machine": platform.machine(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }

"""How the notebooks draw: every colour also differs in lightness, marker or hatching.

So figures survive a grey printer, and readers who see fewer colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

plt.rcParams.update(
    {
        "figure.dpi": 88,
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "0.9",
        "legend.frameon": False,
    }
)

# From dark to light; blue and orange look different to (almost) everybody.
COLOURS = ["#000000", "#005a9c", "#e8702a", "#f2b701"]
# One style per curve: dash, marker, colour.
LINES = list(zip(["-", "--", "-.", ":"], "os^D", COLOURS))
# One style per group of bars: colour, hatching.
BARS = [("#005a9c", ""), ("#f2b701", "///"), ("#e8702a", "..."), ("#ffffff", "")]

# What a slot of a cache holds -> colour, hatching, colour of its text.
SLOTS = {
    "held": ("#c5d5e5", "", "black"),
    "drafted": ("#fde3a0", "////", "black"),
    "stale": ("#ffffff", "", "0.45"),
    "free": ("#ffffff", "", "black"),
}


def axes(
    n: int = 1, width: float = 7.2, height: float = 2.8, rows: int = 1
) -> list[Axes]:
    """`n` axes side by side in each row, in one figure of so many inches."""
    _, made = plt.subplots(
        rows, n, figsize=(width, height), layout="constrained", squeeze=False
    )
    return list(made.flat)


def titles(ax: Axes, x: str, y: str, above: str = "") -> None:
    """What both axes show, with units, and perhaps a title."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_title(above, fontsize=9)


def curves(ax: Axes, x: Sequence[float], ys: Mapping[str, Sequence[float]]) -> None:
    """One curve for each name, up to four."""
    for (name, y), (dash, marker, colour) in zip(ys.items(), LINES):
        ax.plot(
            x, y, linestyle=dash, marker=marker, color=colour, markersize=4, label=name
        )
    ax.legend()


def bars(
    ax: Axes, names: Sequence[str], heights: Mapping[str, Sequence[float]]
) -> None:
    """Groups of bars: for each name on the axis one bar of each kind."""
    width = 0.8 / len(heights)
    for i, ((kind, values), (colour, hatch)) in enumerate(zip(heights.items(), BARS)):
        at = [x + (i + 0.5) * width - 0.4 for x in range(len(names))]
        ax.bar(
            at, values, width, color=colour, hatch=hatch, edgecolor="black", label=kind
        )
    ax.set_xticks(range(len(names)), names)
    ax.grid(axis="x", visible=False)
    ax.legend()


def one_slot(ax: Axes, x: float, y: float, text: str, kind: str) -> None:
    """A box with its token; hatching is paler than outlines, to keep the text clear."""
    colour, hatch, ink = SLOTS[kind]
    place = {"x": x, "height": 0.7, "width": 0.94, "bottom": y - 0.35}
    ax.bar(**place, color=colour, hatch=hatch, edgecolor="0.7", linewidth=0)
    dash = ":" if kind == "stale" else "-"
    ax.bar(**place, fill=False, edgecolor="0.4", linestyle=dash)
    paper = {"facecolor": colour, "edgecolor": "none", "pad": 1.5}
    ax.text(
        x, y, text, ha="center", va="center", color=ink, fontsize=8.5,
        bbox=paper if hatch and text else None,
    )


def slots(
    rows: Mapping[str, Sequence[tuple[str, str]]],
    width: float = 7.2,
    below: str = "slot of the cache = position in the text",
) -> None:
    """Caches drawn as rows of slots, each with (text, kind) as in `SLOTS`."""
    height = 0.55 * len(rows) + 0.4
    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    for y, row in enumerate(rows.values()):
        for x, (text, kind) in enumerate(row):
            one_slot(ax, x, y, text, kind)
    n = max(map(len, rows.values()))
    ax.set_yticks(range(len(rows)), rows)
    ax.set_xticks(range(n) if below else [])
    ax.set_xlabel(below)
    ax.set_xlim(-0.6, n - 0.4)
    ax.invert_yaxis()
    ax.grid(visible=False)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.tick_params(length=0)


def tree(ax: Axes, branches: Mapping[tuple[str, ...], str]) -> None:
    """A tree whose branches are the answers on the way to a leaf, and the leaf's text.

    Branches with the same first answers share that part of the way.
    """
    leaves = {branch: row for row, branch in enumerate(branches)}

    def height(start: tuple[str, ...]) -> float:
        below = [y for branch, y in leaves.items() if branch[: len(start)] == start]
        return sum(below) / len(below)

    nodes = {branch[:i] for branch in branches for i in range(1, len(branch) + 1)}
    for node in sorted(nodes):
        x, y, y_before = len(node), height(node), height(node[:-1])
        ax.plot([x - 1, x - 0.75, x], [y_before, y, y], color=COLOURS[1])
        ax.text(x - 0.72, y - 0.1, node[-1], fontsize=8)
    for branch, text in branches.items():
        ax.text(len(branch) + 0.05, leaves[branch], text, va="center", fontsize=8.5)
    ax.invert_yaxis()
    ax.set_axis_off()

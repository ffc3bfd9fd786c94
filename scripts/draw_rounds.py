"""Draw the first rounds of a decode as a picture: the one on the README's front page.

    python scripts/draw_rounds.py                        notebooks/rounds.svg again
    python scripts/draw_rounds.py --seed 3 --out mine.svg

One row is one pass of the target. What became of a token shows in its outline as well
as in its colour, so the picture can be read in grey; it follows the reader's light or
dark setting. Nothing but this project is needed to draw it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from xml.sax.saxutils import escape

import torch
from ending import ended, positive, status_of

from minispec.commands.prompt import PROMPT
from minispec.draft import ModelDrafter
from minispec.generation import Round
from minispec.pair import SHIPPED, Pair, load_pair
from minispec.randomness import Seeded
from minispec.sampling import Sampling
from minispec.speculative import speculative_rounds
from minispec.stopping import Limits
from minispec.trace import extra_label

OUT = Path(__file__).parents[1] / "notebooks" / "rounds.svg"
WIDTH, ROW, TOP, LEFT = 860, 40, 78, 36  # of the picture, a round, the head, a margin
CHARACTER, PADDING, GAP = 9, 20, 8  # of a letter, both sides of a box, between boxes
MEANINGS = {
    "accepted": "drafted, and kept",
    "refused": "drafted, refused",
    "unread": "drafted behind a refusal",
    "resampled": "drawn in its place",
    "bonus": "one more, as all were kept",
}
STYLE = """
text { font: 15px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328 }
.say { font: 14px system-ui, sans-serif }
.head { font: 600 17px system-ui, sans-serif }
.card { fill: #ffffff; stroke: #d0d7de }
rect { stroke-width: 1.5; rx: 7px }
.accepted { fill: #dafbe1; stroke: #1a7f37 }
.refused { fill: none; stroke: #cf222e; stroke-dasharray: 5 3 }
.unread { fill: none; stroke: #6e7781; stroke-dasharray: 1.5 3 }
.resampled { fill: #ffebe9; stroke: #cf222e; stroke-width: 3; rx: 0 }
.bonus { fill: #ddf4ff; stroke: #0969da; stroke-width: 3 }
line { stroke: #cf222e; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .card { fill: #0d1117; stroke: #30363d }
  .accepted { fill: #12361d } .resampled { fill: #4a1613 } .bonus { fill: #0c2d4f }
}
"""


def rounds_of(pair: Pair, prompt: str, gamma: int, seed: int, n: int) -> list[Round]:
    """The first `n` rounds after the prompt, at temperature 0.8."""
    assert pair.draft is not None
    sampling = Sampling(temperature=0.8)
    ids = torch.tensor(pair.tokenizer.encode(prompt))
    context = pair.target.config.n_positions
    limits = Limits.for_request(len(ids), n * (gamma + 1), (), context)
    drafter = ModelDrafter(pair.draft, sampling)
    decode = speculative_rounds(
        pair.target, drafter, ids, gamma, limits, Seeded(seed), sampling
    )
    return list(islice(decode, n))


def visible(pair: Pair, token: int) -> str:
    """A token with its spaces and ends of line made visible."""
    return pair.tokenizer.decode([token]).replace(" ", "␣").replace("\n", "⏎")


def boxes(round: Round, pair: Pair) -> Iterator[tuple[str, str]]:
    """Text and fate of every token of a round, from left to right."""
    for drafted in round.drafted:
        yield visible(pair, drafted.token), drafted.fate
    if round.extra:
        yield visible(pair, round.committed[-1]), extra_label(round)


def box(x: float, y: float, text: str, fate: str) -> tuple[str, float]:
    """One token as SVG, and its width."""
    width = CHARACTER * len(text) + PADDING
    drawn = (
        f'<rect class="{fate}" x="{x}" y="{y}" width="{width}" height="28"/>'
        f'<text x="{x + width / 2}" y="{y + 19}" text-anchor="middle">'
        f"{escape(text)}</text>"
    )
    if fate == "refused":
        drawn += f'<line x1="{x}" y1="{y + 14}" x2="{x + width}" y2="{y + 14}"/>'
    return drawn, width


def row(number: int, round: Round, pair: Pair) -> Iterator[str]:
    """One round: its tokens, and what they add up to."""
    x, y = LEFT + 24.0, TOP + ROW * (number - 1)
    yield f'<text class="say" x="{LEFT}" y="{y + 19}">{number}</text>'
    for text, fate in boxes(round, pair):
        drawn, width = box(x, y, text, fate)
        yield drawn
        x += width + GAP
    kept, count = round.n_accepted, len(round.committed)
    sum_up = f"{kept} of {len(round.drafted)} kept: {count} token{'s' * (count > 1)}"
    yield say(WIDTH - LEFT, y + 19, sum_up, 'text-anchor="end"')


def say(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text class="say" x="{x}" y="{y}" {more}>{escape(text)}</text>'


def legend(y: float) -> Iterator[str]:
    """What each outline means, in two lines."""
    for i, (fate, meaning) in enumerate(MEANINGS.items()):
        x, line = LEFT + 270 * (i % 3), y + 30 * (i // 3)
        yield f'<rect class="{fate}" x="{x}" y="{line}" width="34" height="18"/>'
        if fate == "refused":
            yield f'<line x1="{x}" y1="{line + 9}" x2="{x + 34}" y2="{line + 9}"/>'
        yield say(x + 44, line + 14, meaning)


def picture(rounds: list[Round], pair: Pair) -> str:
    """The whole picture as SVG text."""
    n_tokens = sum(len(round.committed) for round in rounds)
    head = f"{len(rounds)} passes of the target wrote {n_tokens} tokens"
    rows = [part for i, round in enumerate(rounds, 1) for part in row(i, round, pair)]
    foot = TOP + ROW * len(rounds) + 14
    height = foot + 74
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
            f' width="{WIDTH}" height="{height}" role="img" aria-labelledby="head">',
            f"<style>{STYLE}</style>",
            f'<rect class="card" x="1" y="1" width="{WIDTH - 2}"'
            f' height="{height - 2}"/>',
            f'<text class="head" id="head" x="{LEFT}" y="34">{head}</text>',
            say(LEFT, 57, "each row: what the draft proposed, and what the target did"),
            *rows,
            *legend(foot),
            "</svg>\n",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when drawn; 2 when that could not be, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE")
    parser.add_argument("--prompt", default=PROMPT, help="the text to go on from")
    parser.add_argument("--gamma", type=positive, default=4, help="drafts per round")
    parser.add_argument("--rounds", type=positive, default=6, help="rows to draw")
    parser.add_argument("--seed", type=int, default=2)
    options = parser.parse_args(arguments)
    return status_of("draw_rounds", lambda: draw(options))


def draw(options: argparse.Namespace) -> None:
    """Decode, and write the picture."""
    pair = load_pair(SHIPPED / "target", SHIPPED / "draft")
    rounds = rounds_of(
        pair, options.prompt, options.gamma, options.seed, options.rounds
    )
    options.out.write_text(picture(rounds, pair), encoding="utf-8")
    print(f"{options.out}: {len(rounds)} rounds")


if __name__ == "__main__":
    sys.exit(ended(main))

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

from minispec.commands.ending import Parser, at_least, ended
from minispec.commands.prompt import PROMPT
from minispec.core.draft import ModelDrafter
from minispec.core.randomness import Seeded
from minispec.core.rounds import Round
from minispec.core.sampling import Sampling
from minispec.core.speculative import speculative_rounds
from minispec.core.text import Request
from minispec.files.errors import shown
from minispec.files.pair import SHIPPED, Pair, load_pair
from minispec.files.tokenizer import Tokenizer
from minispec.files.whole import check_writable, replacing

OUT = Path(__file__).parents[1] / "notebooks" / "rounds.svg"
WIDTH, ROW, TOP, LEFT = 860, 40, 78, 36  # of the picture, a round, the head, a margin
CHARACTER, PADDING, GAP = 9, 20, 8  # of a letter, both sides of a box, between boxes
MEANINGS = {
    "accepted": "drafted and accepted",
    "rejected": "drafted and rejected",
    "unread": "drafted after a rejection",
    "resampled": "drawn in its place",
    "bonus": "one more: all were accepted",
}
STYLE = """
text { font: 15px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328 }
.say { font: 14px system-ui, sans-serif } .head { font: 600 17px system-ui, sans-serif }
.card { fill: #ffffff; stroke: #d0d7de } rect { stroke-width: 1.5; rx: 7px }
.accepted { fill: #dafbe1; stroke: #1a7f37 }
.rejected { fill: none; stroke: #cf222e; stroke-dasharray: 5 3 }
.unread { fill: none; stroke: #6e7781; stroke-dasharray: 1.5 3 }
.resampled { fill: #ffebe9; stroke: #cf222e; stroke-width: 3; rx: 0 }
.bonus { fill: #ddf4ff; stroke: #0969da; stroke-width: 3 }
line { stroke: #cf222e; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 }
  .card { fill: #0d1117; stroke: #30363d } .accepted { fill: #12361d }
  .resampled { fill: #4a1613 } .bonus { fill: #0c2d4f } }
"""


def rounds_of(pair: Pair, prompt: str, gamma: int, seed: int, n: int) -> list[Round]:
    """The first `n` rounds after the prompt, at temperature 0.8."""
    assert pair.draft is not None
    sampling = Sampling(temperature=0.8)
    ids = torch.tensor(pair.tokenizer.encode(prompt))
    request = Request(ids, n * (gamma + 1), sampling, gamma)
    drafter = ModelDrafter(pair.draft, sampling)
    rounds = speculative_rounds(pair.target, drafter, request, Seeded(seed))
    return list(islice(rounds, n))


def boxes(one: Round) -> Iterator[tuple[int, str]]:
    """Each token of a round and what became of it, from left to right."""
    for i, token in enumerate(one.tokens):
        read = "rejected" if i < one.judged else "unread"
        yield token, "accepted" if i < one.n_accepted else read
    if one.extra:
        yield one.committed[-1], one.extra


def rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    """A box of one kind; a rejected one is struck through."""
    size = f'width="{width}" height="{height}"'
    drawn = f'<rect class="{kind}" x="{x}" y="{y}" {size}/>'
    if kind == "rejected":
        middle = y + height / 2
        drawn += f'<line x1="{x}" y1="{middle}" x2="{x + width}" y2="{middle}"/>'
    return drawn


def row(number: int, one: Round, tokenizer: Tokenizer) -> Iterator[str]:
    """One round: its tokens, and what they add up to."""
    x, y = LEFT + 24.0, TOP + ROW * (number - 1)
    yield say(LEFT, y + 19, str(number))
    for token, kind in boxes(one):
        text = tokenizer.decode([token]).replace(" ", "␣").replace("\n", "⏎")
        width = CHARACTER * len(text) + PADDING
        yield rect(kind, x, y, width, 28)
        place = f'x="{x + width / 2}" y="{y + 19}" text-anchor="middle"'
        yield f"<text {place}>{escape(text)}</text>"
        x += width + GAP
    count = len(one.committed)
    sum_up = f"{one.n_accepted} of {len(one.tokens)} accepted: {count} token"
    yield say(WIDTH - LEFT, y + 19, sum_up + "s" * (count > 1), 'text-anchor="end"')


def say(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text class="say" x="{x}" y="{y}" {more}>{escape(text)}</text>'


def legend(y: float) -> Iterator[str]:
    """What each outline means, in two lines."""
    for i, (kind, meaning) in enumerate(MEANINGS.items()):
        x, line = LEFT + 270 * (i % 3), y + 30 * (i // 3)
        yield rect(kind, x, line, 34, 18)
        yield say(x + 44, line + 14, meaning)


def picture(rounds: list[Round], tokenizer: Tokenizer) -> str:
    """The whole picture as SVG text."""
    n_tokens = sum(len(one.committed) for one in rounds)
    head = f"{len(rounds)} passes of the target wrote {n_tokens} tokens"
    numbered = enumerate(rounds, 1)
    rows = [part for i, one in numbered for part in row(i, one, tokenizer)]
    foot = TOP + ROW * len(rounds) + 14
    height = foot + 74
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        f' width="{WIDTH}" height="{height}" role="img" aria-labelledby="head">',
        f"<style>{STYLE}</style>",
        rect("card", 1, 1, WIDTH - 2, height - 2),
        f'<text class="head" id="head" x="{LEFT}" y="34">{head}</text>',
        say(LEFT, 57, "each row: what the draft proposed, and what the target did"),
    ]
    return "\n".join([*parts, *rows, *legend(foot), "</svg>\n"])


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when drawn."""
    parser = Parser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add, count = parser.add_argument, at_least(1)
    add("--out", type=Path, default=OUT, metavar="FILE")
    add("--prompt", default=PROMPT, help="the text to go on from")
    add("--gamma", type=count, default=4, help="drafts per round")
    add("--rounds", type=count, default=6, help="rows to draw")
    add("--seed", type=at_least(0), default=2)
    options = parser.parse_args(arguments)
    check_writable(options.out)
    pair = load_pair(SHIPPED / "target", SHIPPED / "draft")
    settings = (options.prompt, options.gamma, options.seed, options.rounds)
    rounds = rounds_of(pair, *settings)
    with replacing(options.out) as part:
        part.write_text(picture(rounds, pair.tokenizer), encoding="utf-8")
    print(f"{shown(options.out, 1000)}: {len(rounds)} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))

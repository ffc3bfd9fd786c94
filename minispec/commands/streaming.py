"""Showing a decode while it happens, and timing it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TextIO

from minispec.autoregressive import Step, autoregressive_steps
from minispec.commands.options import Request
from minispec.generation import Generation, Round
from minispec.randomness import Seeded
from minispec.speculative import speculative_rounds
from minispec.stopping import FinishReason
from minispec.tokenizer import StreamDecoder
from minispec.trace import Paint, coloured_text, round_table


@dataclass
class Decode:
    """What came of a decode so far; grows while it runs."""

    tokens: list[int] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)  # empty for the target alone
    target_forwards: int = 0
    seconds: float = 0.0
    finish_reason: FinishReason | None = None  # None: still going, or interrupted

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second of wall time, that of showing them included."""
        return len(self.tokens) / self.seconds if self.seconds else 0.0

    def generation(self) -> Generation:
        """The rounds as a `Generation`, which knows the statistics."""
        reason = self.finish_reason or "length"
        return Generation(tuple(self.tokens), reason, tuple(self.rounds))


def steps_of(request: Request, speculative: bool) -> Iterator[Step | Round]:
    """The decode itself, as an iterator of whatever commits tokens."""
    target, limits = request.pair.target, request.limits
    chance, sampling = Seeded(request.seed), request.sampling
    if not speculative or request.drafter is None:
        return autoregressive_steps(target, request.prompt, limits, chance, sampling)
    return speculative_rounds(
        target, request.drafter, request.prompt, request.gamma, limits, chance, sampling
    )


def run(
    request: Request,
    decode: Decode,
    speculative: bool,
    paint: Paint = Paint(False),
    show: bool = False,
) -> None:
    """Decode to the end into `decode`, writing the text as it comes if `show`.

    Ctrl-C passes through; `decode` then holds all that was committed before.
    """
    decoder = StreamDecoder(request.pair.tokenizer)
    started = time.perf_counter()
    for step in steps_of(request, speculative):
        decode.tokens.extend(step.committed)
        decode.target_forwards += 1
        if isinstance(step, Round):
            decode.rounds.append(step)
        if show:
            write(piece_of(step, decoder, paint, request))
        decode.seconds = time.perf_counter() - started
        decode.finish_reason = step.finish_reason
    if not decode.target_forwards:
        decode.finish_reason = request.limits.reason
    if show:
        write(decoder.flush())


def piece_of(
    step: Step | Round, decoder: StreamDecoder, paint: Paint, request: Request
) -> str:
    """The text that a step added; an EOS is none."""
    hidden = request.limits.eos_ids
    if isinstance(step, Round):
        return coloured_text(step, decoder, paint, hidden)
    tokens = (token for token in step.committed if token not in hidden)
    return paint(decoder.push(tokens), "plain")


def text_of(request: Request, decode: Decode) -> str:
    """All new text; an EOS is none."""
    hidden = request.limits.eos_ids
    return request.pair.tokenizer.decode(t for t in decode.tokens if t not in hidden)


def write_trace(request: Request, decode: Decode, paint: Paint) -> None:
    """Every round so far as a small table."""
    if request.drafter is None:
        print("nothing to trace: --drafter none drafts nothing", file=sys.stderr)
    for number, round in enumerate(decode.rounds, start=1):
        write(round_table(round, number, request.pair.tokenizer, paint) + "\n")


def write(text: str) -> None:
    """Put text on standard output at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def paint_for(stream: TextIO) -> Paint:
    """Colour on a terminal that knows it, and never where NO_COLOR says no.

    (no-color.org: set to anything but the empty string.)
    """
    refused = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    terminal = stream.isatty()
    return Paint(terminal and not refused, terminal)

"""A decode while it runs: timed, ended at a stop text, and shown as it comes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, islice
from typing import Literal, TextIO, cast

from minispec.commands.job import Job
from minispec.commands.methods import is_tree
from minispec.commands.stop_text import Piece, StopText
from minispec.core.autoregressive import autoregressive_rounds
from minispec.core.draft import Drafter
from minispec.core.randomness import Seeded
from minispec.core.rounds import Generation, Round
from minispec.core.speculative import speculative_rounds
from minispec.core.stopping import FinishReason
from minispec.files.tokenizer import StreamDecoder
from minispec.show.terminal import RULES, Paint, labels, round_table
from minispec.trees.rounds import TreeRound
from minispec.trees.speculative import tree_rounds


def rounds_of(job: Job, speculative: bool) -> Iterator[Round]:
    """The decode itself, by the target alone or with the drafter."""
    randomness, drafter = Seeded(job.seed), job.drafter
    if not speculative or drafter is None:
        return autoregressive_rounds(job.pair.target, job.request, randomness)
    if is_tree(drafter):
        return tree_rounds(job.target, drafter, job.request, randomness)
    chains = cast(Drafter, drafter)
    return speculative_rounds(job.target, chains, job.request, randomness)


def warm_up(job: Job) -> None:
    """A few rounds of each kind: the first calls of a process are slow."""
    for speculative in (False, True):
        for _ in islice(rounds_of(job, speculative), 4):
            pass


class Decode:
    """What came of a decode so far; grows while it runs."""

    def __init__(self, job: Job) -> None:
        self.rounds: list[Round] = []  # without rows
        self.tables: list[str] = []  # if asked for: what decides, then each round
        self.text = ""  # what was written, without EOS
        self.seconds = 0.0  # of wall time, that of showing the text included
        self.finish_reason: FinishReason | Literal["stop"] | None = None  # not ended
        self._hidden = job.request.sampling.eos_ids
        self._decoder = StreamDecoder(job.pair.tokenizer)
        self._stop = StopText(job.stops)

    @property
    def generation(self) -> Generation:
        """The rounds as a `Generation`, which knows the statistics."""
        return Generation(tuple(self.rounds))

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second."""
        return self.generation.emitted / self.seconds if self.seconds else 0.0

    def watch(self, rounds: Iterable[Round]) -> Iterator[tuple[Round, list[Piece]]]:
        """Take rounds to the end of the text; give each and the text now certain.

        A round in which a stop text becomes complete ends there, as at an EOS. Ctrl-C
        passes through; everything before it is kept.
        """
        started = time.perf_counter()
        for one in rounds:
            one, pieces = self._take(one)
            self.rounds.append(replace(one, rows=None))
            self.seconds = time.perf_counter() - started
            yield one, pieces
            self.seconds = time.perf_counter() - started
            if self._stop.found:
                self.finish_reason = "stop"
                return
        self.finish_reason = self.generation.finish_reason

    def run(self, rounds: Iterable[Round]) -> None:
        """The same, in silence."""
        for _ in self.watch(rounds):
            pass
        self.flush()

    def flush(self) -> list[Piece]:
        """The end: what was held back, and a character begun and never finished."""
        if self._stop.found:
            return []
        pieces = self._stop.push(self._decoder.flush(), "plain") + self._stop.flush()
        self.text += "".join(text for text, _ in pieces)
        self.finish_reason = "stop" if self._stop.found else self.finish_reason
        return pieces

    def _take(self, one: Round) -> tuple[Round, list[Piece]]:
        """The round up to a stop text, and its text."""
        pieces: list[Piece] = []
        for i, (token, label) in enumerate(labels(one), start=1):
            text = "" if token in self._hidden else self._decoder.push([token])
            pieces += self._stop.push(text, label)
            if self._stop.found:
                kept, n_accepted = one.committed[:i], min(one.n_accepted, i)
                if isinstance(one, TreeRound):
                    one = replace(one, path=one.path[:n_accepted])
                one = replace(one, n_accepted=n_accepted, committed=kept)
                one = replace(one, finish_reason=None)
                break
        self.text += "".join(text for text, _ in pieces)
        return one, pieces


def show(
    job: Job, decode: Decode, speculative: bool, paint: Paint, trace: bool = False
) -> None:
    """Decode to the end, writing the text as it comes; `trace` makes the tables too.

    After Ctrl-C what was held back is written.
    """
    how = job.pair.tokenizer, paint, job.request.judge
    decode.tables += [RULES[job.method.rule]] * trace
    try:
        for one, pieces in decode.watch(rounds_of(job, speculative)):
            write(painted(pieces, paint))
            if trace:
                decode.tables.append(round_table(one, len(decode.rounds), *how))
    finally:
        write(painted(decode.flush(), paint))


def painted(pieces: list[Piece], paint: Paint) -> str:
    """The text in the colours of its labels, neighbours of one colour together."""
    groups = groupby(pieces, key=lambda piece: piece[1])
    return "".join(paint("".join(c for c, _ in part), label) for label, part in groups)


def write(text: str) -> None:
    """Put text on standard output at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def paint_for(stream: TextIO) -> Paint:
    """Colour on a terminal that knows it, and never where NO_COLOR says no.

    (no-color.org: set to anything but the empty string.)
    """
    colourless = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    terminal = stream.isatty()
    return Paint(terminal and not colourless, terminal)

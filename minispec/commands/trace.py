"""`minispec trace`: a decode as a page on which one steps through it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from minispec.commands.job import Job, job_from
from minispec.commands.options import add_decoding_parser
from minispec.commands.streaming import Decode, rounds_of, warm_up
from minispec.core.rounds import Round
from minispec.files.errors import shown
from minispec.files.whole import check_writable, replacing
from minispec.model.gpt2 import GPT
from minispec.show.page import PageData, render
from minispec.show.recording import Recorded, record
from minispec.show.speed import speed_of

SAYS = "write a page on which a decode can be stepped through"
DESCRIPTION = """\
Write a decode as one HTML page on which it can be stepped through: what was drafted,
the target's and the draft's distribution at each position as bars that show what they
share and what is resampled, the draw that decided each token, both caches before and
after rollback, and the speed-up as predicted and as measured.

The page is a single file. It loads nothing, so it can be opened from disk, printed, and
passed on. The text in it is the one that `generate` writes with the same options, but
for --gamma auto: its lengths follow the clock, and so does the text, whose distribution
stays the same.
"""
EXAMPLES = """\
examples:
  minispec trace --prompt "ROMEO:" --tokens 60 --out romeo.html
  minispec trace --drafter ngram --temperature 0
"""


def add_parser(commands: "argparse._SubParsersAction") -> None:
    """Register the command."""
    texts = SAYS, DESCRIPTION, EXAMPLES
    parser = add_decoding_parser(commands, run_trace, "trace", texts)
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("decode.html"),
        metavar="FILE",
        help="where to write the page; a file that is there is replaced (%(default)s)",
    )


def run_trace(args: argparse.Namespace) -> int:
    """Decode twice, the target alone for its speed, and write the page."""
    if args.out == Path("-"):  # elsewhere standard output, where the summary goes
        raise ValueError("--out needs a file of its own: give a name, such as a.html")
    check_writable(args.out)  # before any time is spent on the decode
    job = job_from(args)
    warm_up(job)
    alone: list[float] = []
    Decode(job).run(timed(rounds_of(job, speculative=False), alone))
    recorded: list[Recorded] = []
    page = page_of(job, recorded, alone)
    with replacing(args.out) as part:
        part.write_text(page, encoding="utf-8", newline="\n")
    n = len(recorded)
    print(f"{shown(args.out, 1000)}: {n} round{'s' * (n != 1)}; open it in a browser")
    return 0


def timed(rounds: Iterable[Round], seconds: list[float]) -> Iterator[Round]:
    """The same rounds; the wall time of each is noted."""
    started = time.perf_counter()
    for one in rounds:
        seconds.append(time.perf_counter() - started)
        yield one
        started = time.perf_counter()


def page_of(job: Job, recorded: list[Recorded], alone: list[float]) -> str:
    """The decode of `generate` as HTML; what is recorded is appended to `recorded`.

    `alone`: the seconds of each step of the target alone.
    """
    assert job.drafter is not None
    data = PageData(job.text, job.request, job.pair.tokenizer)
    decode, drafter, latest = Decode(job), job.drafter, list[Recorded]()

    def rounds() -> Iterator[Round]:
        for one, facts in record(job.target, drafter, job.request, job.seed):
            latest.append(facts)
            recorded.append(replace(facts, row=None))
            yield one

    for one, _ in decode.watch(rounds()):
        data.add(one, latest.pop(), decode.generation)
    decode.flush()
    speed = speed_of(decode.generation, recorded, alone)
    ended = decode.text, decode.finish_reason
    return render(data.finish(*ended, decode.generation, speed, settings_of(job)))


def settings_of(job: Job) -> dict[str, str]:
    """What was asked for, by name. No folders: the page may be passed on."""
    method, sampling, n = job.method, job.request.sampling, len(job.request.prompt)
    model = getattr(job.drafter, "model", None)
    return {
        "target": size_of(job.pair.target),
        "drafter": method.drafter + (f": {size_of(model)}" if model else ""),
        "tokens drafted": method.length.removeprefix("gamma "),
        "judge": method.judge + (" (lossy)" if job.is_lossy else " (exact)"),
        "draws": "coupled" if method.coupled else "independent",
        "temperature": f"{sampling.temperature:g}",
        "top-k": str(sampling.top_k or "all"),
        "top-p": f"{sampling.top_p:g}",
        "min-p": f"{sampling.min_p:g}",
        "repetition penalty": f"{sampling.repetition_penalty:g}",
        "min. tokens": str(max(0, sampling.min_length - n)),
        "EOS ids": ", ".join(map(str, sampling.eos_ids)) or "none",
        "stop texts": ", ".join(map(repr, job.stops)) or "none",
        "seed": str(job.seed),
    }


def size_of(model: GPT) -> str:
    """A model in a few words."""
    layers, width = model.config.n_layer, model.config.n_embd
    millions = model.n_parameters / 1e6
    plural = "layer" if layers == 1 else "layers"
    return f"{layers} {plural} of width {width}, {millions:.3g} M parameters"

"""A character that the text ends in is held back for ever.

Made by whoever streams with an incremental decoder and forgets its last call
(inference).
"""

import time

from minispec.commands.options import Request
from minispec.commands.streaming import Decode, piece_of, steps_of, write
from minispec.generation import Round
from minispec.tokenizer import StreamDecoder
from minispec.trace import Paint

REPLACES = "commands/streaming.py:run"
CAUGHT_BY = ["test_cli.py"]


def run(
    request: Request,
    decode: Decode,
    speculative: bool,
    paint: Paint = Paint(False),
    show: bool = False,
) -> None:
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

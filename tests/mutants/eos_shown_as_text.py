"""The token that ends the text is written out as <|endoftext|>.

Made by whoever decodes all that was committed (inference).
"""

from minispec.autoregressive import Step
from minispec.commands.options import Request
from minispec.generation import Round
from minispec.tokenizer import StreamDecoder
from minispec.trace import Paint, coloured_text

REPLACES = "commands/streaming.py:piece_of"
CAUGHT_BY = ["test_cli.py"]


def piece_of(
    step: Step | Round, decoder: StreamDecoder, paint: Paint, request: Request
) -> str:
    if isinstance(step, Round):
        return coloured_text(step, decoder, paint)
    return paint(decoder.push(step.committed), "plain")

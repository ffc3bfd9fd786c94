"""On the page the token that ends the text is part of it.

Made by whoever decodes all that was committed (inference).
"""

from collections.abc import Collection

from minispec.tokenizer import StreamDecoder
from minispec.trace import labels
from minispec.trace.recording import Recorded

REPLACES = "trace/page.py:text_data"
CAUGHT_BY = ["test_trace_page.py"]


def text_data(
    recorded: Recorded, decoder: StreamDecoder, eos_ids: Collection[int]
) -> list[dict[str, str]]:
    return [
        {"text": decoder.push([token]), "label": label}
        for token, label in labels(recorded.round)
    ]

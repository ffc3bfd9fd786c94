"""NO_COLOR is obeyed only if it says 1.

no-color.org: set to anything but the empty string. Made by whoever parses it as a
boolean (inference).
"""

import os
from typing import TextIO

from minispec.trace import Paint

REPLACES = "commands/streaming.py:paint_for"
CAUGHT_BY = [
    "test_cli_terminal.py::test_colour_only_on_a_terminal_that_wants_it"
]


def paint_for(stream: TextIO) -> Paint:
    refused = os.environ.get("NO_COLOR") == "1" or os.environ.get("TERM") == "dumb"
    terminal = stream.isatty()
    return Paint(terminal and not refused, terminal)

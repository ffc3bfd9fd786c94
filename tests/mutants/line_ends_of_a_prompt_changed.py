"""The prompt file is read as text, which turns its CR LF into LF.

Made by whoever opens a file as Python suggests; the model then sees another prompt than
on the command line (inference).
"""

import sys
from pathlib import Path

REPLACES = "commands/prompt.py:prompt_of_file"
CAUGHT_BY = ["test_cli.py"]


def prompt_of_file(source: str) -> tuple[str, str]:
    if source == "-":
        return "standard input", sys.stdin.buffer.read().decode("utf-8-sig")
    return f"the prompt file {source!r}", Path(source).read_text("utf-8-sig")

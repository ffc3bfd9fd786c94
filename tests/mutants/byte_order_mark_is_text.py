"""The mark that some editors put before UTF-8 is taken for a character of the prompt.

Made by whoever decodes as "utf-8" (inference).
"""

import sys
from pathlib import Path

REPLACES = "commands/prompt.py:prompt_of_file"
CAUGHT_BY = ["test_cli.py"]


def prompt_of_file(source: str) -> tuple[str, str]:
    data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    return f"the prompt file {source!r}", data.decode("utf-8")

"""The first line of merges.txt is dropped as a header, also where there is none.

Made by whoever knows GPT-2's file, whose first line is "#version: 0.2" (inference).
"""

from pathlib import Path

from minispec.vocabulary import read_text

REPLACES = "vocabulary.py:read_merges"
CAUGHT_BY = ["test_tokenizer.py"]


def read_merges(path: Path | str) -> list[str]:
    lines = read_text(path).splitlines()[1:]
    return [token for line in lines if (token := "".join(line.split()))]

"""A .tiktoken file is read once for each path, and a changed file is not noticed.

tiktoken's own loader caches by path; its cache is what openai/tiktoken, issues 317, 369
and 513, are about.
"""

import base64
from functools import cache
from pathlib import Path

import tiktoken

from minispec.vocabulary import EOS, TokenizerError, checked, read_text

REPLACES = "vocabulary.py:tiktoken_file"
CAUGHT_BY = ["test_tokenizer.py"]


@cache
def tiktoken_file(path: Path | str) -> tiktoken.Encoding:
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except ValueError as error:
            raise TokenizerError(
                f"{path}, line {number}: expected a token in base64 and its rank"
            ) from error
    return checked(str(path), ranks, {EOS: len(ranks)})

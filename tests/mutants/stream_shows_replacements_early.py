"""Each piece is decoded by itself, so a character in two pieces becomes U+FFFD twice.

waybarrios/vllm-mlx, pull request 109; sgl-project/sglang, issue 31598.
"""

from collections.abc import Iterable
from typing import SupportsIndex

REPLACES = "tokenizer.py:StreamDecoder.push"
CAUGHT_BY = ["test_tokenizer.py"]


class StreamDecoder:
    def push(self, ids: Iterable[SupportsIndex]) -> str:
        return self._tokenizer.decode(ids)

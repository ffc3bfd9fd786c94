"""A piece is held back while it ends in U+FFFD, and shown again with what follows.

The trick of comparing decoded prefixes, half done: what was held back is decoded anew,
but so is what was shown. A duplicated character is in waybarrios/vllm-mlx, pull request
109 (this cause is inference).
"""

from collections.abc import Iterable
from typing import SupportsIndex

REPLACES = "tokenizer.py:StreamDecoder.push"
CAUGHT_BY = ["test_tokenizer.py"]


class StreamDecoder:
    def push(self, ids: Iterable[SupportsIndex]) -> str:
        self._held = [*getattr(self, "_held", []), *ids]
        text = self._tokenizer.decode(self._held)
        if text.endswith("\ufffd"):
            return ""
        self._held = self._held[-1:] if len(text) > 1 else []
        return text

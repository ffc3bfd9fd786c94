"""Two vocabularies are the same if they are equally large.

Sizes are what public reports are about (vllm-project/vllm, issues 5203 and 7252); that
ids of one size may mean other texts is forgotten (inference).
"""

from typing import Any

REPLACES = "tokenizer.py:Tokenizer.same_vocabulary"
CAUGHT_BY = ["test_tokenizer.py"]


class Tokenizer:
    def same_vocabulary(self, other: Any) -> bool:
        return self.vocab_size == other.vocab_size

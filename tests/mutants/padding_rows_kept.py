"""The rows that only round the vocabulary up stay, and can be sampled.

A head of 50304 rows made tiktoken panic (karpathy/build-nanogpt, issue 81, pull request
80).
"""

from torch import Tensor

from minispec.gpt2 import GPTConfig

REPLACES = "checkpoint/vocabulary_rows.py:cut_vocabulary"
CAUGHT_BY = ["test_checkpoint.py"]


def cut_vocabulary(
    config: GPTConfig, tensors: dict[str, Tensor], vocab_size: int | None
) -> GPTConfig:
    return config

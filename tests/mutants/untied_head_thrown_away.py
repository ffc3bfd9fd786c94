"""A head of its own is left out, and the embedding used in its place.

Made by whoever takes config.json's word, where a tied head is what silence means;
minGPT's models have an untied one and say so nowhere (inference).
"""

from dataclasses import replace
from typing import Any

from torch import Tensor

from minispec.gpt2 import GPTConfig

REPLACES = "checkpoint/vocabulary_rows.py:settle_head"
CAUGHT_BY = ["test_checkpoint.py"]


def settle_head(
    config: GPTConfig, stated: dict[str, Any], tensors: dict[str, Tensor]
) -> GPTConfig:
    tied = stated.get("tie_word_embeddings", True)
    if tied:
        tensors.pop("lm_head.weight", None)
    return replace(config, tie_word_embeddings=tied)

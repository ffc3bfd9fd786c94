"""`tie_word_embeddings` is not saved, so other readers tie every head.

Made by whoever writes the keys of GPT-2's own config.json, which has no such key
(inference).
"""

from typing import Any

import torch

from minispec.checkpoint.config import OPTIONAL, SIZES
from minispec.gpt2 import GPTConfig

REPLACES = "checkpoint/config.py:config_to_json"
CAUGHT_BY = ["test_checkpoint.py"]


def config_to_json(
    config: GPTConfig, dtype: torch.dtype, eos_id: int
) -> dict[str, Any]:
    stated = {key: getattr(config, key) for key in (*SIZES, *OPTIONAL)}
    del stated["tie_word_embeddings"]
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        **stated,
        "bos_token_id": eos_id,
        "eos_token_id": eos_id,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }

"""The saved config.json names GPT-2's own end of text, whatever the vocabulary.

transformers takes 50256 where nothing is said: an id that a small vocabulary lacks.
Made by whoever copies a config.json (inference).
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
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        **stated,
        "bos_token_id": 50256,
        "eos_token_id": 50256,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }

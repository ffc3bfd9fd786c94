"""`lm_head.decoder.weight` is not recognised as the head.

DialoGPT's own files call it that (huggingface/transformers, pull request 1778).
"""

from minispec.checkpoint.key_names import PREFIXES

REPLACES = "checkpoint/key_names.py:canonical_name"
CAUGHT_BY = ["test_checkpoint.py"]


def canonical_name(key: str) -> str:
    while key.startswith(PREFIXES):
        key = key.split(".", 1)[1]
    return key

"""One prefix is taken off a key, and a second one stays.

vllm-project/vllm (pull request 271) met `transformer.transformer.`; compiled models
have `_orig_mod.transformer.`.
"""

from minispec.checkpoint.key_names import PREFIXES

REPLACES = "checkpoint/key_names.py:canonical_name"
CAUGHT_BY = ["test_checkpoint.py"]


def canonical_name(key: str) -> str:
    for prefix in PREFIXES:
        if key.startswith(prefix):
            key = key.removeprefix(prefix)
            break
    return "lm_head.weight" if key == "lm_head.decoder.weight" else key

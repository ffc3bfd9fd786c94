"""The processors look back on all of the text but its last token.

Made by whoever appends the token after the processors were given the text.
"""

import torch
from torch import Tensor

from minispec.gpt2 import GPT
from minispec.kv_cache import KVCache
from minispec.sampling import Sampling, logits_to_probs

REPLACES = "autoregressive.py:next_probs"
CAUGHT_BY = ["test_autoregressive.py"]


@torch.inference_mode()
def next_probs(
    target: GPT, cache: KVCache, prefix: Tensor, sampling: Sampling
) -> Tensor:
    hidden = target.trunk(prefix[None, cache.length :], cache)
    logits = target.head(hidden[:, -1:])[0]
    return logits_to_probs(logits, sampling, prefix[:-1])[0]

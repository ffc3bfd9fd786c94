"""The head computes logits for the whole prompt and the last row is used.

Made by whoever calls the model as a whole: a prompt of 1,000 tokens makes 50 million
logits that nobody reads.
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
    logits = target.head(hidden)[0, -1:]
    return logits_to_probs(logits, sampling, prefix)[0]

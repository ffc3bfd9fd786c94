"""The whole text is fed at every step although the cache holds it.

Made by whoever passes full ids together with a cache (huggingface/transformers, issue
530; romsto/Speculative-Decoding, issue 4).
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
    hidden = target.trunk(prefix[None], cache)
    logits = target.head(hidden[:, -1:])[0]
    return logits_to_probs(logits, sampling, prefix)[0]

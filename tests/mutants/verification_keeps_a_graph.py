"""Verification remembers everything for a backward pass that never comes.

Made by whoever forgets inference_mode: every text costs memory for each of its tokens.
"""

import torch
from torch import Tensor

from minispec.gpt2 import GPT
from minispec.kv_cache import KVCache
from minispec.sampling import Sampling, logits_to_probs

REPLACES = "verify.py:verify"
CAUGHT_BY = ["test_verify.py"]


def verify(
    target: GPT, cache: KVCache, prefix: Tensor, tokens: Tensor, sampling: Sampling
) -> Tensor:
    K = len(tokens)
    history = torch.cat([prefix, tokens])
    hidden = target.trunk(history[None, cache.length :], cache)
    logits = target.head(hidden[:, -(K + 1) :])[0]
    return logits_to_probs(logits, sampling, history)

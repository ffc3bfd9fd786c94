"""The target is fed the whole text although its cache holds a part of it.

Made by whoever passes full ids together with a cache (romsto/Speculative-Decoding, its
source and issue 4).
"""

import torch
from torch import Tensor

from minispec.gpt2 import GPT
from minispec.kv_cache import KVCache
from minispec.sampling import Sampling, logits_to_probs

REPLACES = "verify.py:verify"
CAUGHT_BY = ["test_verify.py"]


@torch.inference_mode()
def verify(
    target: GPT, cache: KVCache, prefix: Tensor, tokens: Tensor, sampling: Sampling
) -> Tensor:
    K = len(tokens)
    history = torch.cat([prefix, tokens])
    hidden = target.trunk(history[None], cache)
    logits = target.head(hidden[:, -(K + 1) :])[0]
    return logits_to_probs(logits, sampling, history)

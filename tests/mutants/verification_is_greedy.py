"""The target's rows are one-hot at every temperature.

Made by whoever has a fast path for one kernel and falls into it: on one platform a
verification was silently greedy (sgl-project/sglang, pull requests 31214 and 39253).
"""

from dataclasses import replace

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
    hidden = target.trunk(history[None, cache.length :], cache)
    logits = target.head(hidden[:, -(K + 1) :])[0]
    return logits_to_probs(logits, replace(sampling, temperature=0), history)

"""The target's head computes logits for the whole prompt and uses K + 1 rows.

Made by whoever calls the model as a whole: a prompt of 1,000 tokens makes 50 million
logits that nobody reads.
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
    hidden = target.trunk(history[None, cache.length :], cache)
    logits = target.head(hidden)[0, -(K + 1) :]
    return logits_to_probs(logits, sampling, history)

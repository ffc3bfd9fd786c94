"""The target is fed the last token and the drafts, whatever it has not seen.

Made by whoever assumes that the cache always holds all of the prefix but one token: it
does not hold the prompt.
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
    hidden = target.trunk(history[None, -(K + 1) :], cache)
    logits = target.head(hidden[:, -(K + 1) :])[0]
    return logits_to_probs(logits, sampling, history)

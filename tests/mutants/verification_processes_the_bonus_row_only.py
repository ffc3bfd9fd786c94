"""Penalties, temperature and truncation reach the last row alone.

Made by whoever processes where a plain step samples: min-p did only that (vllm-
project/vllm, issue 42744 and pull request 42802).
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
    logits = target.head(hidden[:, -(K + 1) :])[0]
    bonus = logits_to_probs(logits[-1:], sampling, history)
    return torch.cat([logits[:-1].softmax(dim=-1), bonus])

"""After the prompt the row of its first token is read.

Made by whoever takes position 0 of the new rows, which is right for one new token;
flattening the rows is of the same kind (huggingface/transformers, issue 2774).
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
    logits = target.head(hidden[:, :1])[0]
    return logits_to_probs(logits, sampling, prefix)[0]

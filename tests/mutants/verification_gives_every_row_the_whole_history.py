"""Every row looks back on all the drafted tokens, those behind it too.

Made by whoever calls a processor for one row on each row of the block, with the text as
it is by then.
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
    rows = logits.split(1)
    return torch.cat([logits_to_probs(row, sampling, history) for row in rows])

"""2. Parallel verification: what the target thinks of every drafted token, in one pass.

A causal model that is fed prefix + K drafted tokens computes K + 1 distributions that
matter: one after the prefix, and one after each drafted token. Row i is, but for
rounding, what the target would have computed had it written the first i drafted tokens
itself.

Where reading the weights is what takes the time, one pass over K + 1 tokens costs
little more than over one, because a decoder reads them all either way (`minispec plan`
shows the arithmetic). That is where the speed comes from. On the CPU of the README's
table a pass over 5 to 9 tokens costs 1.2 to 1.5 times as much as over one, which
`analysis.py` takes into account.

Paper: Leviathan, Kalman and Matias 2023, algorithm 1, "run M_p in parallel".
"""

from __future__ import annotations

import torch
from torch import Tensor

from minispec.gpt2 import GPT
from minispec.kv_cache import KVCache
from minispec.sampling import Sampling, logits_to_probs


@torch.inference_mode()
def verify(
    target: GPT, cache: KVCache, prefix: Tensor, tokens: Tensor, sampling: Sampling
) -> Tensor:  # [n], [K] -> [K + 1, V]
    """The target's distributions after prefix + tokens[:i], for i = 0..K.

    The cache may hold any beginning of the prefix but not all of it; afterwards it
    holds the prefix and all drafted tokens. Only the K + 1 rows that matter pass
    through the head.
    """
    K = len(tokens)
    history = torch.cat([prefix, tokens])
    hidden = target.trunk(history[None, cache.length :], cache)
    logits = target.head(hidden[:, -(K + 1) :])[0]
    return logits_to_probs(logits, sampling, history)

"""2. Parallel verification: what the target thinks of every drafted token, in one pass.

A causal model that is fed prefix + K drafted tokens computes K + 1 distributions that
matter: one after the prefix, and one after each drafted token. Row i is, up to
rounding, what the target would have computed had it written the first i drafted tokens
itself.

If reading the weights takes most of the time, one pass over K + 1 tokens costs little
more than one over a single token, because both read them all (`minispec plan` shows the
arithmetic). That is where the speed comes from. On a CPU it costs noticeably more (the
handbook has figures), which `analysis.py` takes into account.

Paper: Leviathan, Kalman and Matias 2023, algorithm 1, "run M_p in parallel".
"""

from __future__ import annotations

import torch
from torch import Tensor

from minispec.core.sampling import Sampling, logits_to_probs
from minispec.model.gpt2 import GPT
from minispec.model.kv_cache import KVCache


@torch.inference_mode()
def verify(
    target: GPT, cache: KVCache, prefix: Tensor, tokens: Tensor, sampling: Sampling
) -> Tensor:  # [n], [K] -> [K + 1, V]
    """The target's distributions after prefix + tokens[:i], for i = 0..K.

    The cache may hold any beginning of the prefix but not all of it; afterwards it
    holds the prefix and all drafted tokens. Only the K + 1 rows that matter pass
    through the head.
    """
    history = torch.cat([prefix, tokens])
    logits = target(history[None, cache.length :], cache, last=len(tokens) + 1)[0]
    return logits_to_probs(logits, sampling, history)

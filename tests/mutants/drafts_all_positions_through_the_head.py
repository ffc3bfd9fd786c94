"""The draft's head computes logits for the whole prompt and uses the last row.

Made by whoever calls the model as a whole: with 50,257 tokens the head is the dearest
part of a small model.
"""

import torch
from torch import Tensor

from minispec.draft import Proposal
from minispec.gpt2 import GPT
from minispec.kv_cache import KVCache
from minispec.randomness import Randomness
from minispec.sampling import Sampling, logits_to_probs

REPLACES = "draft.py:draft"
CAUGHT_BY = ["test_draft.py"]


@torch.inference_mode()
def draft(
    model: GPT,
    cache: KVCache,
    prefix: Tensor,
    K: int,
    sampling: Sampling,
    randomness: Randomness,
) -> Proposal:
    tokens = prefix
    rows = [torch.empty(0, model.config.vocab_size)]
    for _ in range(K):
        hidden = model.trunk(tokens[None, cache.length :], cache)
        probs = logits_to_probs(model.head(hidden)[0, -1:], sampling, tokens)
        token = randomness.sample(probs[0])
        tokens = torch.cat([tokens, tokens.new_tensor([token])])
        rows.append(probs)
    return Proposal(tokens[len(prefix) :], torch.cat(rows))

"""The draft takes its most probable token, and says so, at any temperature.

Made by whoever believes that a greedy assistant is always best; the text keeps its law,
but the drafter no longer does what it was asked to, and fewer drafts may be kept.
"""

import torch
import torch.nn.functional as F
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
        probs = logits_to_probs(model.head(hidden[:, -1:])[0], sampling, tokens)
        token = int(probs[0].argmax())
        probs = F.one_hot(probs.argmax(-1), probs.shape[-1]).to(probs.dtype)
        tokens = torch.cat([tokens, tokens.new_tensor([token])])
        rows.append(probs)
    return Proposal(tokens[len(prefix) :], torch.cat(rows))

"""The baseline: one forward pass of the target for every token.

    repeat: logits of the last position -> probabilities -> draw -> append

Speculative decoding must have the same output distribution, so this is the oracle for
everything else here. It shares the model, the sampling chain and the stopping rule with
the speculative decoder, and no step of drafting, verifying, rejecting or rolling back.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.core.rounds import Generation, Round
from minispec.core.sampling import Sampling, logits_to_probs
from minispec.core.text import Request, Text
from minispec.model.gpt2 import GPT
from minispec.model.kv_cache import KVCache


def autoregressive_rounds(
    target: GPT, request: Request, randomness: Randomness
) -> Iterator[Round]:
    """Decode token by token until the request's limits end the text."""
    text = Text(request, target)
    while text.finish_reason is None:
        probs = next_probs(target, text.cache, text.prefix, request.sampling)
        committed = text.commit([randomness.sample(probs)])
        yield Round((), 0, committed, text.finish_reason)


@torch.inference_mode()
def next_probs(
    target: GPT, cache: KVCache, prefix: Tensor, sampling: Sampling
) -> Tensor:  # [n] -> [V]
    """The target's distribution after `prefix`, feeding what the cache has not seen."""
    logits = target(prefix[None, cache.length :], cache, last=1)[0]
    return logits_to_probs(logits, sampling, prefix)[0]


def generate_alone(target: GPT, request: Request, randomness: Randomness) -> Generation:
    """The whole text at once, by the target alone.

    Raises ValueError for a prompt that the target cannot read.
    """
    return Generation(tuple(autoregressive_rounds(target, request, randomness)))

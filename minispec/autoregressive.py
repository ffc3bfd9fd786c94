"""The baseline: one forward pass of the target for every token.

    repeat: logits of the last position -> probabilities -> draw -> append

This is what speculative decoding must equal in law, and the oracle for everything else
here. It shares the model, the sampling chain and the stopping rule with the speculative
decoder, and nothing of the round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from minispec.gpt2 import GPT
from minispec.kv_cache import KVCache
from minispec.randomness import Randomness
from minispec.sampling import Sampling, logits_to_probs
from minispec.stopping import FinishReason, Limits, check_prompt


@dataclass(frozen=True)
class Step:
    """One forward pass of the target and the token it gave."""

    committed: tuple[int, ...]  # one token; a tuple as in `generation.Round`
    finish_reason: FinishReason | None  # None while the text goes on


@dataclass(frozen=True)
class Completion:
    """The new tokens (the prompt is not among them), and why they end."""

    tokens: tuple[int, ...]
    finish_reason: FinishReason
    target_forwards: int


def autoregressive_steps(
    target: GPT,
    prompt: Tensor,
    limits: Limits,
    randomness: Randomness,
    sampling: Sampling = Sampling(),
) -> Iterator[Step]:
    """Decode token by token after `prompt` [n], until the limits end the text."""
    cache = target.new_cache(limits.max_length)
    prefix, reason = prompt, None
    while limits.room(len(prefix)) and reason is None:
        token = randomness.sample(next_probs(target, cache, prefix, sampling))
        committed, reason = limits.cut(len(prefix), [token])
        prefix = torch.cat([prefix, prefix.new_tensor(committed)])
        yield Step(committed, reason)


@torch.inference_mode()
def next_probs(
    target: GPT, cache: KVCache, prefix: Tensor, sampling: Sampling
) -> Tensor:  # [n] -> [V]
    """The target's distribution after `prefix`, feeding what the cache has not seen.

    Only the last row passes through the head.
    """
    hidden = target.trunk(prefix[None, cache.length :], cache)
    logits = target.head(hidden[:, -1:])[0]
    return logits_to_probs(logits, sampling, prefix)[0]


def generate(
    target: GPT,
    prompt: Tensor,
    max_new_tokens: int,
    randomness: Randomness,
    sampling: Sampling = Sampling(),
    eos_ids: Collection[int] = (),
) -> Completion:
    """The whole text at once. `prompt` is [n], n >= 1.

    Raises ValueError for a prompt or budget that `check_prompt` and
    `Limits.for_request` refuse.
    """
    check_prompt(prompt, target.config.vocab_size)
    n_positions = target.config.n_positions
    limits = Limits.for_request(len(prompt), max_new_tokens, eos_ids, n_positions)
    steps = list(autoregressive_steps(target, prompt, limits, randomness, sampling))
    tokens = tuple(token for step in steps for token in step.committed)
    reason = (steps[-1].finish_reason if steps else None) or limits.reason
    return Completion(tokens, reason, len(steps))

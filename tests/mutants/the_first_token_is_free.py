"""The budget is counted from the second new token on.

Made by whoever takes the pass over the prompt for no step.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from minispec.autoregressive import Step, next_probs
from minispec.gpt2 import GPT
from minispec.randomness import Randomness
from minispec.sampling import Sampling
from minispec.stopping import Limits

REPLACES = "autoregressive.py:autoregressive_steps"
CAUGHT_BY = ["test_autoregressive.py"]


def autoregressive_steps(
    target: GPT,
    prompt: Tensor,
    limits: Limits,
    randomness: Randomness,
    sampling: Sampling = Sampling(),
) -> Iterator[Step]:
    limits = replace(limits, max_length=limits.max_length + 1)
    cache = target.new_cache(limits.max_length)
    prefix, reason = prompt, None
    while limits.room(len(prefix)) and reason is None:
        token = randomness.sample(next_probs(target, cache, prefix, sampling))
        committed, reason = limits.cut(len(prefix), [token])
        prefix = torch.cat([prefix, prefix.new_tensor(committed)])
        yield Step(committed, reason)

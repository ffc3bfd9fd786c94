"""The baseline draws with torch.multinomial from the global generator.

Made by whoever writes the plain loop first and the source of chance later.
"""

from collections.abc import Iterator

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
    cache = target.new_cache(limits.max_length)
    prefix, reason = prompt, None
    while limits.room(len(prefix)) and reason is None:
        probs = next_probs(target, cache, prefix, sampling)
        token = int(torch.multinomial(probs, 1))
        committed, reason = limits.cut(len(prefix), [token])
        prefix = torch.cat([prefix, prefix.new_tensor(committed)])
        yield Step(committed, reason)

"""The steps are all computed before the first is given out.

Made by whoever builds a list where a stream was asked for: the text is right, and the
reader waits for its end.
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
    prefix, reason, steps = prompt, None, []
    while limits.room(len(prefix)) and reason is None:
        token = randomness.sample(next_probs(target, cache, prefix, sampling))
        committed, reason = limits.cut(len(prefix), [token])
        prefix = torch.cat([prefix, prefix.new_tensor(committed)])
        steps.append(Step(committed, reason))
    yield from steps

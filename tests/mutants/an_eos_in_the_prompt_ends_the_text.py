"""Nothing is written after a prompt that ends with EOS.

Made by whoever looks for EOS in the text and not in what is new; GPT-2's only special
token also begins a text.
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
    prefix, reason = prompt, "eos" if int(prompt[-1]) in limits.eos_ids else None
    while limits.room(len(prefix)) and reason is None:
        token = randomness.sample(next_probs(target, cache, prefix, sampling))
        committed, reason = limits.cut(len(prefix), [token])
        prefix = torch.cat([prefix, prefix.new_tensor(committed)])
        yield Step(committed, reason)

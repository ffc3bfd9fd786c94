"""A gamma of 0 decodes without speculation, and nobody is told.

Made by whoever finds that it works.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from minispec.draft import Drafter
from minispec.generation import Round
from minispec.gpt2 import GPT
from minispec.randomness import Randomness
from minispec.sampling import Sampling
from minispec.speculative import speculative_round
from minispec.stopping import Limits

REPLACES = "speculative.py:speculative_rounds"
CAUGHT_BY = ["test_speculative.py"]


def speculative_rounds(
    target: GPT,
    drafter: Drafter,
    prompt: Tensor,
    gamma: int,
    limits: Limits,
    randomness: Randomness,
    sampling: Sampling = Sampling(),
) -> Iterator[Round]:
    cache = target.new_cache(limits.max_length)
    drafter.rollback(0)
    prefix, reason = prompt, None
    while (room := limits.room(len(prefix))) and reason is None:
        gamma_now = min(gamma, room - 1)
        round = speculative_round(
            target, cache, drafter, prefix, gamma_now, limits, randomness, sampling
        )
        prefix = torch.cat([prefix, prefix.new_tensor(round.committed)])
        reason = round.finish_reason
        yield round

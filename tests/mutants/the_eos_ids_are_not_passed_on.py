"""No EOS ends a speculative text.

Made by whoever passes the budget on and forgets the rest of the stopping rule.
"""

from collections.abc import Collection

from torch import Tensor

from minispec.draft import Drafter
from minispec.generation import Generation
from minispec.gpt2 import GPT
from minispec.randomness import Randomness
from minispec.sampling import Sampling
from minispec.speculative import speculative_rounds
from minispec.stopping import Limits, check_prompt

REPLACES = "speculative.py:generate"
CAUGHT_BY = ["test_speculative.py"]


def generate(
    target: GPT,
    drafter: Drafter,
    prompt: Tensor,
    gamma: int,
    max_new_tokens: int,
    randomness: Randomness,
    sampling: Sampling = Sampling(),
    eos_ids: Collection[int] = (),
) -> Generation:
    check_prompt(prompt, target.config.vocab_size)
    n_positions = target.config.n_positions
    limits = Limits.for_request(len(prompt), max_new_tokens, (), n_positions)
    rounds = tuple(
        speculative_rounds(target, drafter, prompt, gamma, limits, randomness, sampling)
    )
    tokens = tuple(token for round in rounds for token in round.committed)
    reason = (rounds[-1].finish_reason if rounds else None) or limits.reason
    return Generation(tokens, reason, rounds)

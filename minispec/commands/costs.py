"""What drafting and verifying cost here, for --gamma auto.

Costs are timed, so two runs may draft other lengths. Where the target draws, they may
then write other texts, of the same distribution.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from statistics import median

import torch
from torch import Tensor

from minispec.core.draft import Drafter, Proposal
from minispec.core.randomness import Randomness, Seeded
from minispec.core.speculative import speculative_rounds
from minispec.core.text import Request
from minispec.model.gpt2 import GPT
from minispec.model.kv_cache import KVCache

ROWS = (1, 2, 3, 5, 9, 13, 17)  # of the passes that are timed
N_TIMES, N_ROUNDS, GAMMA = 7, 8, 4


class Timed(Drafter):
    """A drafter whose proposals are timed, with how many tokens they had."""

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.seconds: list[float] = []  # for each drafted token

    def begin(self, cache: KVCache) -> None:
        self.drafter.begin(cache)

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        started = time.perf_counter()
        proposal = self.drafter.propose(prefix, gamma, randomness)
        seconds = time.perf_counter() - started
        self.seconds.append(seconds / max(1, len(proposal.tokens)))
        return proposal

    def rollback(self, length: int) -> None:
        self.drafter.rollback(length)


def measured_costs(
    target: GPT, drafter: Drafter, request: Request
) -> tuple[float, Callable[[int], float]]:
    """A drafted token's cost, and `verify_cost(gamma)`, in steps of the target.

    Takes some tens of passes. Between the measured lengths it interpolates.
    """
    timed = Timed(drafter)
    rounds = speculative_rounds(target, timed, request, Seeded(0))
    for _ in islice(rounds, N_ROUNDS):
        pass
    drafting = median(timed.seconds[1:] or timed.seconds or [0.0])
    seconds = seconds_of_passes(target, request.prompt, pause=GAMMA * drafting)
    return drafting / seconds[1], verify_cost_from(seconds)


def verify_cost_from(seconds: dict[int, float]) -> Callable[[int], float]:
    """The cost of a pass over gamma + 1 tokens in steps: interpolated, flat beyond."""

    def verify_cost(gamma: int) -> float:
        rows = min(gamma + 1, max(seconds))
        low = max(n for n in seconds if n <= rows)
        high = min(n for n in seconds if n >= rows)
        share = (rows - low) / (high - low) if high > low else 0.0
        return ((1 - share) * seconds[low] + share * seconds[high]) / seconds[1]

    return verify_cost


@torch.inference_mode()
def seconds_of_passes(
    target: GPT, prompt: Tensor, pause: float = 0.0
) -> dict[int, float]:
    """The median time of a pass over some tokens after the prompt, for each of ROWS.

    Before a pass over several tokens comes a pause, in seconds, as long as drafting
    takes: meanwhile weights leave the processor's cache, and the pass takes longer.
    """
    capacity = target.config.n_positions
    fits = [rows for rows in ROWS if rows < capacity]
    cache = target.new_cache()
    past = prompt[None, : max(0, min(len(prompt), capacity - max(fits)))]
    if past.shape[1]:
        target(past.to(cache.device), cache, last=1)
    taken: dict[int, list[float]] = {rows: [] for rows in fits}
    for _ in range(N_TIMES):
        for rows in fits:  # by turns: a slow moment hits all of them
            ids = torch.zeros(1, rows, dtype=torch.long, device=cache.device)
            time.sleep(pause if rows > 1 else 0)
            started = time.perf_counter()
            logits = target(ids, cache, last=rows)
            float(logits[0, 0, 0])  # waits for the device
            taken[rows].append(time.perf_counter() - started)
            cache.truncate(past.shape[1])
    return {rows: median(times) for rows, times in taken.items()}

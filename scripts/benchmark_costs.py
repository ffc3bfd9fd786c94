"""What the parts of a round cost, for the prediction: a draft step, a verification."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
from timing import interleave
from torch import Tensor

from minispec.autoregressive import next_probs
from minispec.draft import ModelDrafter, Proposal
from minispec.gpt2 import GPT
from minispec.kv_cache import KVCache
from minispec.randomness import Randomness, Seeded
from minispec.rollback import rollback
from minispec.sampling import Sampling
from minispec.speculative import speculative_round
from minispec.stopping import Limits


@dataclass(frozen=True)
class Costs:
    """Median seconds over a cache of `context` tokens."""

    context: int
    step: float  # the target alone: one token
    draft_step: float  # one drafted token
    verify: dict[int, float]  # by K: a whole round but its drafting

    @property
    def cost_ratio(self) -> float:
        """c: one draft step over one step of the target."""
        return self.draft_step / self.step

    def verify_cost(self, gamma: int) -> float:
        """v: the target's side of a round with `gamma` drafts, over one step."""
        return self.verify[gamma] / self.step


class Prepared:
    """A drafter whose proposal is ready: a round with it costs all but the drafting."""

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        kept = self.proposal
        return Proposal(kept.tokens[:gamma], kept.draft_probs[:gamma])

    def rollback(self, length: int) -> None:
        pass


def measure_costs(
    target: GPT,
    draft: GPT,
    prefix: Tensor,
    lengths: list[int],
    sampling: Sampling,
    repeats: int,
    calls: int,
) -> Costs:  # prefix [n]
    """Time `calls` calls of each part, interleaved; medians over the repeats."""
    works = works_of(target, draft, prefix, lengths, sampling)

    def many(work: Callable[[], object]) -> Callable[[int], None]:
        def run(repeat: int) -> None:
            for _ in range(calls):
                work()

        return run

    taken: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for sample in interleave({k: many(w) for k, w in works.items()}, repeats):
        taken[sample.name].append(sample.seconds / calls)
    medians = {name: statistics.median(seconds) for name, seconds in taken.items()}
    return Costs(
        len(prefix),
        medians["step"],
        medians["draft"] / max(lengths),
        {K: medians[f"verify {K}"] for K in lengths},
    )


def works_of(
    target: GPT, draft: GPT, prefix: Tensor, lengths: list[int], sampling: Sampling
) -> dict[str, Callable[[], object]]:
    """A step of the target, max(lengths) draft steps, and a round for each K.

    Each leaves its cache as it found it: all of the prefix but the last token.
    """
    held = len(prefix) - 1
    limits = Limits(len(prefix) + max(lengths) + 1, "length", frozenset())
    drafter, randomness = ModelDrafter(draft, sampling), Seeded(1)
    cache = target.new_cache(limits.max_length)
    fill(target, cache, prefix[:held])
    fill(draft, drafter.cache, prefix[:held])

    def step() -> None:
        randomness.sample(next_probs(target, cache, prefix, sampling))
        rollback(cache, held)

    def draft_steps() -> Proposal:
        proposal = drafter.propose(prefix, max(lengths), randomness)
        drafter.rollback(held)
        return proposal

    ready = Prepared(draft_steps())

    def round_of(K: int) -> Callable[[], None]:
        def run() -> None:
            speculative_round(
                target, cache, ready, prefix, K, limits, randomness, sampling
            )
            rollback(cache, held)

        return run

    rounds = {f"verify {K}": round_of(K) for K in lengths}
    return {"step": step, "draft": draft_steps, **rounds}


@torch.inference_mode()
def fill(model: GPT, cache: KVCache, ids: Tensor) -> None:  # [n]
    """Bring `ids` into the cache."""
    model.trunk(ids[None], cache)

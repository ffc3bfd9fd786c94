"""The round, and the loop of rounds: speculative decoding itself.

    prefix --draft--> tokens, draft_probs      K cheap steps
           --verify-> target_probs             one pass of the target
           --reject-> n_accepted, next_token   so that the law is the target's
           --commit-> a longer prefix, cut where the text ends
           --roll back-> both caches hold a part of what is committed

No mathematics is here and no loop over rounds is anywhere else. Every round commits at
least one token, so a useless drafter costs only its own time and a wider verification.

Paper: Leviathan, Kalman and Matias 2023 (arXiv 2211.17192), algorithm 1. Left out:
batches, trees of drafts, and a gamma that adapts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch
from torch import Tensor

from minispec.draft import Drafter, check_proposal
from minispec.generation import Generation, Round, describe
from minispec.gpt2 import GPT
from minispec.kv_cache import KVCache
from minispec.randomness import Randomness
from minispec.rejection import reject
from minispec.rollback import rollback
from minispec.sampling import Sampling
from minispec.stopping import Limits, check_prompt
from minispec.verify import verify


def speculative_rounds(
    target: GPT,
    drafter: Drafter,
    prompt: Tensor,
    gamma: int,
    limits: Limits,
    randomness: Randomness,
    sampling: Sampling = Sampling(),
) -> Iterator[Round]:
    """Decode round by round after `prompt` [n], until the limits end the text.

    Raises ValueError for a gamma below 1, when the first round is asked for.
    """
    if gamma < 1:
        raise ValueError(f"gamma must be at least 1, got {gamma}")
    cache = target.new_cache(limits.max_length)
    drafter.rollback(0)  # whatever it holds belongs to another text
    prefix, reason = prompt, None
    while (room := limits.room(len(prefix))) and reason is None:
        # A round commits one token more than it drafts: draft no more than can be used.
        gamma_now = min(gamma, room - 1)
        round = speculative_round(
            target, cache, drafter, prefix, gamma_now, limits, randomness, sampling
        )
        prefix = torch.cat([prefix, prefix.new_tensor(round.committed)])
        reason = round.finish_reason
        yield round


def speculative_round(
    target: GPT,
    cache: KVCache,
    drafter: Drafter,
    prefix: Tensor,
    gamma: int,
    limits: Limits,
    randomness: Randomness,
    sampling: Sampling,
) -> Round:
    """Draft, verify, reject, commit, roll back: `prefix` [n] gains a token or more."""
    proposal = drafter.propose(prefix, gamma, randomness)
    check_proposal(proposal, gamma, target.config.vocab_size)
    tokens, draft_probs = proposal.tokens, proposal.draft_probs
    target_probs = verify(target, cache, prefix, tokens, sampling)
    verdict = reject(tokens, draft_probs, target_probs, randomness)

    new = [*tokens[: verdict.n_accepted].tolist(), verdict.next_token]
    committed, reason = limits.cut(len(prefix), new)

    length = len(prefix) + len(committed) - 1  # the last token is always fed next time
    rollback(cache, length)
    drafter.rollback(length)
    drafted = describe(proposal, target_probs, verdict.n_accepted, len(committed))
    return Round(drafted, committed, reason)


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
    """The whole text at once. `prompt` is [n], n >= 1; `gamma` >= 1.

    Raises ValueError for a gamma below 1, for a prompt or budget that `check_prompt`
    and `Limits.for_request` refuse, and for a proposal that `check_proposal` refuses.
    """
    check_prompt(prompt, target.config.vocab_size)
    n_positions = target.config.n_positions
    limits = Limits.for_request(len(prompt), max_new_tokens, eos_ids, n_positions)
    rounds = tuple(
        speculative_rounds(target, drafter, prompt, gamma, limits, randomness, sampling)
    )
    tokens = tuple(token for round in rounds for token in round.committed)
    reason = (rounds[-1].finish_reason if rounds else None) or limits.reason
    return Generation(tokens, reason, rounds)

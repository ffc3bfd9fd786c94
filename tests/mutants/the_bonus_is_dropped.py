"""A round in which all was kept commits its drafts and no bonus.

Made by whoever commits an extra token only after a refusal: the law is right, and one
token of every good round is given away.
"""

from torch import Tensor

from minispec.draft import Drafter, check_proposal
from minispec.generation import Round, describe
from minispec.gpt2 import GPT
from minispec.kv_cache import KVCache
from minispec.randomness import Randomness
from minispec.rejection import reject
from minispec.rollback import rollback
from minispec.sampling import Sampling
from minispec.stopping import Limits
from minispec.verify import verify

REPLACES = "speculative.py:speculative_round"
CAUGHT_BY = ["test_speculative.py"]


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
    proposal = drafter.propose(prefix, gamma, randomness)
    check_proposal(proposal, gamma, target.config.vocab_size)
    tokens, draft_probs = proposal.tokens, proposal.draft_probs
    target_probs = verify(target, cache, prefix, tokens, sampling)
    verdict = reject(tokens, draft_probs, target_probs, randomness)
    new = [*tokens[: verdict.n_accepted].tolist(), verdict.next_token]
    if 0 < verdict.n_accepted == len(tokens):
        new = new[:-1]
    committed, reason = limits.cut(len(prefix), new)
    length = len(prefix) + len(committed) - 1
    rollback(cache, length)
    drafter.rollback(length)
    drafted = describe(proposal, target_probs, verdict.n_accepted, len(committed))
    return Round(drafted, committed, reason)

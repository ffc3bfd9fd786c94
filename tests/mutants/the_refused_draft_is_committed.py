"""One draft too many is committed, and its replacement is dropped.

Made by whoever counts the extra token among the accepted: refusing the last draft left
the count one too high and dropped the correction (openvinotoolkit/openvino.genai, issue
4190).
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
    new = [*tokens.tolist(), verdict.next_token][: verdict.n_accepted + 1]
    committed, reason = limits.cut(len(prefix), new)
    length = len(prefix) + len(committed) - 1
    rollback(cache, length)
    drafter.rollback(length)
    drafted = describe(proposal, target_probs, verdict.n_accepted, len(committed))
    return Round(drafted, committed, reason)

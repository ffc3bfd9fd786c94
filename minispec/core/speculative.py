"""The round, and the loop of rounds: speculative decoding itself.

    prefix --draft--> tokens, draft_probs      K cheap steps
           --verify-> target_probs             one pass of the target
           --reject-> n_accepted, next_token   the output distribution is the target's
           --commit-> a longer prefix, cut where the text ends
           --roll back-> both caches hold a part of what is committed

There is no mathematics here, and the loop over rounds is nowhere else. Every round
commits at least one token, so a useless drafter costs only its own time and a wider
verification.

Paper: Leviathan, Kalman and Matias 2023 (arXiv 2211.17192), algorithm 1, whose lines
are numbered on the right. Left out: batches and trees of drafts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from minispec.core.checked import Checked
from minispec.core.draft import Drafter
from minispec.core.randomness import Randomness
from minispec.core.rollback import rollback
from minispec.core.rounds import Generation, Round, Rows
from minispec.core.text import Request, Text
from minispec.core.verify import verify
from minispec.model.gpt2 import GPT


def speculative_round(
    target: GPT, drafter: Drafter, text: Text, gamma: int, randomness: Randomness
) -> Round:
    """Draft, verify, reject, commit, roll back: `text` gains a token or more."""
    request, prefix = text.request, text.prefix
    proposal = drafter.propose(prefix, gamma, randomness)  # lines 1-4
    tokens, draft_probs = proposal.tokens, proposal.draft_probs
    target_probs = verify(target, text.cache, prefix, tokens, request.sampling)  # 5
    verdict = request.judge(tokens, draft_probs, target_probs, randomness)  # 6-12

    drafts = tokens.tolist()
    committed = text.commit([*drafts[: verdict.n_accepted], verdict.next_token])  # 13

    rollback(text.cache, text.length - 1)  # the last token is always fed next time
    drafter.rollback(text.length - 1)
    n_accepted = min(verdict.n_accepted, len(committed))  # an EOS cuts the text
    rows = Rows(draft_probs, target_probs)
    return Round(tuple(drafts), n_accepted, committed, text.finish_reason, rows)


def speculative_rounds(
    target: GPT, drafter: Drafter, request: Request, randomness: Randomness
) -> Iterator[Round]:
    """Decode round by round until the request's limits end the text.

    Raises ValueError for a prompt that the target cannot read, and for a drafter that
    breaks its contract.
    """
    text, past = Text(request, target), list[Round]()
    drafter = Checked(drafter, target.config.vocab_size)
    drafter.begin(text.cache)
    while text.finish_reason is None:
        gamma = request.gamma(past) if callable(request.gamma) else request.gamma
        n_drafts = text.n_drafts(gamma)
        done = speculative_round(target, drafter, text, n_drafts, randomness)
        past.append(replace(done, rows=None))
        yield done


def generate(
    target: GPT, drafter: Drafter, request: Request, randomness: Randomness
) -> Generation:
    """The whole text at once. Raises as `speculative_rounds` does."""
    rounds = speculative_rounds(target, drafter, request, randomness)
    return Generation(tuple(replace(one, rows=None) for one in rounds))

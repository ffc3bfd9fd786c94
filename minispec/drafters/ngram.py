"""Prompt lookup: draft by copying what followed the last time.

    ... the king of France said | to | ... the king of France said -> guess "to"
        `------- match --------'             `----- suffix ------'

Text repeats itself: names, code, quoted questions. Find the longest suffix of the
prefix that occurred before, and propose what came after its most recent occurrence. No
model, no cache, next to no cost; where nothing matches, K = 0 and the round is a plain
target step.

The proposal is chosen, not drawn, so its distribution is one-hot, and a token is
accepted with the target's own probability of it.

Reference: Saxena 2023, "Prompt Lookup Decoding". Left out: an index of all n-grams, and
continuing a copy past the end of the prefix.
"""

from __future__ import annotations

from torch import Tensor

from minispec.core.draft import Drafter, Proposal
from minispec.core.randomness import Randomness
from minispec.checks import whole_number


class NgramDrafter(Drafter):
    """Copies from the prefix. It has no state, so there is nothing to roll back."""

    def __init__(self, vocab_size: int, longest: int = 4, shortest: int = 1) -> None:
        """`longest` and `shortest` are the lengths of the suffixes looked for.

        Raises TypeError or ValueError unless they are whole numbers, 1 or more, in this
        order.
        """
        self.vocab_size = whole_number("vocab_size", vocab_size, least=1)
        self.shortest = whole_number("shortest", shortest, least=1)
        self.longest = whole_number("longest", longest, least=self.shortest)

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        tokens = copy_continuation(prefix, gamma, self.longest, self.shortest)
        return Proposal.certain(tokens, self.vocab_size)


def copy_continuation(
    prefix: Tensor, gamma: int, longest: int, shortest: int
) -> Tensor:  # [n] -> [K], K <= gamma
    """What followed the most recent earlier occurrence of the longest suffix."""
    for n in range(min(longest, len(prefix) - 1), shortest - 1, -1):
        # Every window but the last, which is the suffix itself.
        windows = prefix.unfold(0, n, 1)[:-1]
        matches = (windows == prefix[-n:]).all(dim=1).nonzero()
        if len(matches):
            start = int(matches[-1]) + n
            return prefix[start : start + gamma]
    return prefix[:0]

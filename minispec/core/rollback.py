"""4. Cache rollback: forget what the target rejected.

Drafting and verifying both run ahead of the text: when a round ends, the caches hold
keys and values of tokens that may have been rejected. Rows of a causal model depend
only on what stands before them, so the accepted part is still right and the rest is
simply forgotten.

The invariant after every round, for every cache, with a committed prefix of n tokens:

    cache.length <= n - 1   and   the cache holds exactly prefix[: cache.length]

At most n - 1, because each model is always fed prefix[cache.length:] and needs at least
one token to say what follows. It may be less: after a round in which all drafts were
accepted, the draft has not yet seen its own last proposal, and is simply fed two tokens
next time.

Rollback takes an absolute length. A count of tokens to drop would have to know how far
each model had run ahead, which differs by model and by round.
"""

from __future__ import annotations

from minispec.model.kv_cache import KVCache


def rollback(cache: KVCache, length: int) -> None:
    """Forget every position from `length` on; a shorter cache stays as it is.

    No memory moves: the slots are overwritten when the sequence grows again.
    """
    if cache.length > length:
        cache.truncate(length)

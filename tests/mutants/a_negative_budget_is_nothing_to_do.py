"""A budget below 0 is taken for 0.

Made by whoever is lenient: the caller's mistake comes back as an empty text.
"""

from __future__ import annotations

from collections.abc import Collection

REPLACES = "stopping.py:Limits.for_request"
CAUGHT_BY = ["test_stopping.py"]


class Limits:
    @classmethod
    def for_request(
        cls,
        n_prompt: int,
        max_new_tokens: int,
        eos_ids: Collection[int],
        n_positions: int,
    ) -> Limits:
        if n_prompt < 1:
            raise ValueError("the prompt is empty: give at least one token")
        if n_prompt > n_positions:
            raise ValueError(
                f"the prompt has {n_prompt} tokens and the target's context holds "
                f"{n_positions}: shorten the prompt"
            )
        budget = n_prompt + max(max_new_tokens, 0)
        if budget <= n_positions:
            return cls(budget, "length", frozenset(eos_ids))
        return cls(n_positions, "context", frozenset(eos_ids))

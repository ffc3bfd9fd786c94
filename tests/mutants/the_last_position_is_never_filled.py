"""A text that fills the context exactly is said to be cut by it.

Made by whoever writes < for <=.
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
        if max_new_tokens < 0:
            raise ValueError(f"max_new_tokens must be 0 or more, got {max_new_tokens}")
        budget = n_prompt + max_new_tokens
        if budget < n_positions:
            return cls(budget, "length", frozenset(eos_ids))
        return cls(n_positions, "context", frozenset(eos_ids))

"""The budget alone ends a text: it runs past the last position.

Made by whoever tests with short texts: GPT-2 has 1024 positions, and there is no row
for the next (huggingface/transformers, issue 1749).
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
        return cls(budget, "length", frozenset(eos_ids))

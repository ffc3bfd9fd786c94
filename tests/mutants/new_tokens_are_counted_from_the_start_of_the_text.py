"""The minimum of new tokens counts the prompt too.

Made by whoever mixes up min_length and min_new_tokens.
"""

from __future__ import annotations

from dataclasses import replace

REPLACES = "sampling.py:Sampling.with_min_new_tokens"
CAUGHT_BY = ["test_sampling.py"]


class Sampling:
    def with_min_new_tokens(self, prompt_length: int, n: int) -> Sampling:
        return replace(self, min_length=max(prompt_length, n))

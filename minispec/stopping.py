"""When a text ends: at an EOS token, at the budget, or at the end of the context.

A speculative round commits several tokens at once, and any of them may be the last.
Both decoders therefore hand what they want to commit to the same `Limits.cut`.
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

FinishReason = Literal["eos", "length", "context"]


@dataclass(frozen=True)
class Limits:
    """The longest sequence allowed, prompt included, and the tokens that end it."""

    max_length: int
    reason: FinishReason  # what reaching max_length is called
    eos_ids: frozenset[int]

    @classmethod
    def for_request(
        cls,
        n_prompt: int,
        max_new_tokens: int,
        eos_ids: Collection[int],
        n_positions: int,
    ) -> Limits:
        """Budget or context, whichever comes first.

        Raises ValueError for an empty prompt, one longer than the context, or a
        negative budget, and TypeError for EOS ids that are no whole numbers.
        """
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
        ends = frozenset(map(operator.index, eos_ids))  # a tensor's elements are no ids
        if budget <= n_positions:
            return cls(budget, "length", ends)
        return cls(n_positions, "context", ends)

    def room(self, n: int) -> int:
        """How many tokens a sequence of n may still grow by."""
        return self.max_length - n

    def cut(
        self, n: int, new: list[int]
    ) -> tuple[tuple[int, ...], FinishReason | None]:
        """What of `new` may follow n committed tokens, and why the text ends there.

        The first EOS is kept and is the last token; None means the text goes on.
        """
        new = new[: self.room(n)]
        for i, token in enumerate(new):
            if token in self.eos_ids:
                return tuple(new[: i + 1]), "eos"
        ended = n + len(new) == self.max_length
        return tuple(new), self.reason if ended else None


def check_prompt(prompt: Tensor, vocab_size: int) -> None:
    """Raise ValueError for anything but the ids [n] of a model's vocabulary."""
    kinds = (torch.int32, torch.int64)
    if not isinstance(prompt, Tensor) or prompt.dtype not in kinds or prompt.ndim != 1:
        raise ValueError(
            "the prompt must be a tensor of ids, [n], such as "
            f"torch.tensor(tokenizer.encode(text)), got {prompt!r:.80}"
        )
    strangers = prompt[(prompt < 0) | (prompt >= vocab_size)].tolist()
    if strangers:
        raise ValueError(
            f"the prompt's ids must be at least 0 and below {vocab_size}, got "
            f"{strangers}: was it encoded with this model's tokenizer?"
        )

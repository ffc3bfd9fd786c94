"""A text to write, and a text while it is written.

What stays the same for a whole decode travels together in a `Request`; what changes
with every round, the committed prefix and the target's cache of it, is a `Text`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from minispec.core.checked import checked_judge
from minispec.core.rejection import Judge, reject
from minispec.core.rounds import Length
from minispec.checks import whole_number
from minispec.core.sampling import Sampling
from minispec.core.stopping import FinishReason, Limits
from minispec.model.gpt2 import GPT, GPTConfig
from minispec.model.kv_cache import KVCache


@dataclass(frozen=True)
class Request:
    """One text to write.

    `gamma` is how many tokens to draft each round: a number, or a function of the past
    rounds. `judge` decides which drafts stay; any but an exact one changes the output
    distribution. Raises TypeError or ValueError for fields that cannot be right.
    """

    prompt: Tensor  # [n] ids, n >= 1
    max_new_tokens: int
    sampling: Sampling = Sampling()
    gamma: int | Length = 4
    judge: Judge = reject

    def __post_init__(self) -> None:
        prompt, kinds = self.prompt, (torch.int32, torch.int64)
        is_ids = isinstance(prompt, Tensor) and prompt.dtype in kinds
        is_plain = is_ids and prompt.layout == torch.strided and not prompt.is_meta
        if not is_plain or prompt.ndim != 1 or len(prompt) == 0:
            raise ValueError(
                "the prompt must be a tensor of at least one id, [n], such as "
                f"torch.tensor(tokenizer.encode(text)), got {prompt!r:.80}"
            )
        budget = whole_number("max_new_tokens", self.max_new_tokens, least=0)
        object.__setattr__(self, "max_new_tokens", budget)
        if not isinstance(self.sampling, Sampling):
            raise TypeError(f"sampling must be a Sampling, got {self.sampling!r:.80}")
        if not callable(self.judge):
            raise TypeError(f"judge must be a function, got {self.judge!r:.80}")
        if not callable(self.gamma):
            gamma = whole_number("gamma", self.gamma, least=1)
            object.__setattr__(self, "gamma", gamma)

    def limits(self, config: GPTConfig) -> Limits:
        """Where the text ends on a target of this shape: budget or context.

        Raises ValueError for a prompt of foreign ids, or one beyond the context.
        """
        V, n_positions, n = config.vocab_size, config.n_positions, len(self.prompt)
        foreign = self.prompt[(self.prompt < 0) | (self.prompt >= V)].tolist()
        if foreign:
            raise ValueError(
                f"the prompt's ids must be at least 0 and below {V}, got "
                f"{str(foreign):.80}: was it encoded with this model's tokenizer?"
            )
        if n > n_positions:
            raise ValueError(
                f"the prompt has {n} tokens and the target's context holds "
                f"{n_positions}: shorten the prompt"
            )
        budget, fits = n + self.max_new_tokens, n_positions + 1
        if budget <= fits:
            return Limits(budget, "length", self.sampling.eos_ids)
        return Limits(fits, "context", self.sampling.eos_ids)


class Text:
    """A text while it is written: the committed prefix, and the target's cache."""

    def __init__(
        self, request: Request, target: GPT, cache: KVCache | None = None
    ) -> None:
        """`cache`: an empty one to use, in a batch a row of it; by default a new one.

        Raises ValueError for a request that the target cannot serve, and TypeError for
        what is no target or no request.
        """
        if not hasattr(target, "new_cache"):  # a compiled GPT is one too
            raise TypeError(f"the target must be a GPT, got {target!r:.80}")
        if not isinstance(request, Request):
            raise TypeError(f"expected a Request(prompt, n), got {request!r:.80}")
        self.request = replace(request, judge=checked_judge(request.judge))
        self.limits = request.limits(target.config)
        # The last token is never fed.
        self.cache = cache or target.new_cache(max(1, self.limits.max_length - 1))
        self._ids = torch.empty(
            self.limits.max_length, dtype=torch.long, device=self.cache.device
        )
        self._ids[: len(request.prompt)] = request.prompt
        self.length = len(request.prompt)
        self.finish_reason: FinishReason | None = None if self.room else "length"

    @property
    def prefix(self) -> Tensor:
        """What is committed, [n]."""
        return self._ids[: self.length]

    @property
    def room(self) -> int:
        """How many tokens the text may still grow by."""
        return self.limits.room(self.length)

    def n_drafts(self, gamma: int) -> int:
        """`gamma`, or less near the end: a round commits one token more."""
        return min(whole_number("gamma", gamma, least=0), self.room - 1)

    def commit(self, new: list[int]) -> tuple[int, ...]:
        """Append as much of `new` as the limits allow; return that."""
        committed, self.finish_reason = self.limits.cut(self.length, new)
        end = self.length + len(committed)
        self._ids[self.length : end] = self._ids.new_tensor(committed)
        self.length = end
        return committed

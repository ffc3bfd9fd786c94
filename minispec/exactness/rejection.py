"""The kit for one round: the law of a rejection sampler, ours or anybody's.

A speculative round stands or falls with a few lines: which drafts are kept, and what
replaces the first one refused. `law_of_rejection` enumerates just these, at rows of
probabilities that are given, without any model:

    law = law_of_rejection(my_sampler, target_rows, draft_rows)
    assert_same_law(law, law_of_rows(target_rows))

Code that draws from torch's own generator is enumerated too, inside `torch_draws_from`:
there torch.multinomial asks the `Randomness`, and the numbers of torch.rand are left
open until they are compared. What is enumerated is what floating point does:
torch.rand gives multiples of 2**-24 in float32 and of 2**-53 in float64, 0 among them,
so that `u <= 0` has a chance above 0 where `u < 0` has none.

Left out: uniforms that are used for anything but a comparison, and Gumbel or
exponential noise. For those there is `exactness/statistics.py`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import torch
from torch import Tensor

from minispec.exactness.enumeration import Law, output_law
from minispec.randomness import Randomness


class Judgement(Protocol):
    """What a rejection sampler says of K drafted tokens (`rejection.Verdict` does)."""

    @property
    def n_accepted(self) -> int: ...  # 0..K

    @property
    def next_token(self) -> int: ...  # the one that follows them


# tokens [K], draft_rows [K, V], target_rows [K + 1, V], a source of chance
RejectionSampler = Callable[[Tensor, Tensor, Tensor, Randomness], Judgement]


def law_of_rejection(
    sampler: RejectionSampler,
    target_rows: Tensor,
    draft_rows: Tensor,
    drawn_from: Tensor | None = None,
    max_branches: int = 100_000,
) -> Law:  # [K + 1, V], [K, V] -> the law of K + 1 tokens
    """The law of the block that a rejection sampler commits, completed by the target.

    K tokens are drafted from `draft_rows` and judged; what the round does not commit is
    drawn from the remaining `target_rows`. The sampler is lossless at these rows
    exactly if this is `law_of_rows(target_rows)`. The rows should differ by position:
    then a row taken from the wrong place shows. `drawn_from` [K, V] is for drafts that
    come from other rows than those declared, which breaks the contract and the law.

    Raises as `enumerate_law` does, ValueError for shapes that do not fit, and as
    `checked` does for what a sampler returns.
    """
    K = len(draft_rows)
    if target_rows.shape != (K + 1, draft_rows.shape[-1]):
        raise ValueError(
            f"draft_rows of shape {list(draft_rows.shape)} need target_rows of shape "
            f"{[K + 1, draft_rows.shape[-1]]}, got {list(target_rows.shape)}"
        )
    source = draft_rows if drawn_from is None else drawn_from

    def run(randomness: Randomness) -> list[int]:
        drafted = [randomness.sample(row) for row in source]
        tokens = torch.tensor(drafted, dtype=torch.long)
        # Copies: whoever writes into them must not move the law that is expected.
        mine = tokens, draft_rows.clone(), target_rows.clone()
        n_accepted, next_token = checked(sampler(*mine, randomness), K)
        committed = [*drafted[:n_accepted], next_token]
        rest = target_rows[len(committed) :]
        return [*committed, *(randomness.sample(row) for row in rest)]

    return output_law(run, max_branches)


def checked(judged: Judgement, K: int) -> tuple[int, int]:
    """Both numbers of a judgement; TypeError or ValueError if it is none."""
    try:
        n_accepted = operator.index(judged.n_accepted)
        next_token = operator.index(judged.next_token)
    except (AttributeError, TypeError) as error:
        raise TypeError(
            "a sampler must return something with two whole numbers, n_accepted and "
            f"next_token (as rejection.Verdict has), got {judged!r}"
        ) from error
    if not 0 <= n_accepted <= K:
        raise ValueError(f"n_accepted must be from 0 to {K}, got {n_accepted}")
    return n_accepted, next_token


def law_of_rows(rows: Tensor) -> Law:  # [T, V] -> the law of T tokens
    """One token from each row, independently."""
    return output_law(lambda randomness: [randomness.sample(row) for row in rows])


# ----------------------------------------------------------------- torch's generator

GRID = {torch.float32: 24, torch.float64: 53}  # torch.rand's random bits, on the CPU


class OpenUniforms:
    """What torch.rand would have drawn, left open: only a comparison decides."""

    def __init__(self, like: Tensor, randomness: Randomness) -> None:
        if like.dtype not in GRID:
            raise TypeError(
                f"uniforms of {like.dtype} are not enumerated: their grid depends on "
                "the kernel; use float32 or float64, or a statistical test"
            )
        self.shape, self.steps = like.shape, 2 ** GRID[like.dtype]
        self.randomness = randomness

    def __lt__(self, threshold: Any) -> Tensor:
        return self._decide(threshold, math.ceil)

    def __le__(self, threshold: Any) -> Tensor:
        return self._decide(threshold, lambda steps: math.floor(steps) + 1)

    def __ge__(self, threshold: Any) -> Tensor:
        return ~(self < threshold)

    def __gt__(self, threshold: Any) -> Tensor:
        return ~(self <= threshold)

    def _decide(self, threshold: Any, below: Callable[[float], int]) -> Tensor:
        """One decision for each element; `below` counts the multiples that pass."""
        wide = torch.as_tensor(threshold).double().expand(self.shape)
        passed = [self._passes(value, below) for value in wide.flatten().tolist()]
        return torch.tensor(passed, dtype=torch.bool).view(self.shape)

    def _passes(self, threshold: float, below: Callable[[float], int]) -> bool:
        if math.isnan(threshold):
            return False
        steps = min(max(threshold * self.steps, -1.0), 2.0 * self.steps)
        chance = min(max(below(steps), 0), self.steps) / self.steps
        row = torch.tensor([1 - chance, chance], dtype=torch.float64)
        return bool(self.randomness.sample(row))

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"an open uniform can only be compared, it has no {name!r}: test this "
            "sampler by statistics (exactness/statistics.py)"
        )


@contextmanager
def torch_draws_from(randomness: Randomness) -> Iterator[None]:
    """Inside, torch.rand, rand_like and multinomial (of one) ask `randomness`."""

    def rand(*size: Any, dtype: torch.dtype | None = None, **_: Any) -> OpenUniforms:
        return OpenUniforms(torch.empty(*size, dtype=dtype), randomness)

    def rand_like(like: Tensor, **_: Any) -> OpenUniforms:
        return OpenUniforms(like, randomness)

    def multinomial(probs: Tensor, num_samples: int, *_: Any, **__: Any) -> Tensor:
        if num_samples != 1:
            raise ValueError(f"only draws of one token, not of {num_samples}")
        if not (probs >= 0).all() or not (probs.sum(-1) > 0).all():
            raise RuntimeError("torch.multinomial refuses NaN, negative or no mass")
        wide = probs.double().view(-1, probs.shape[-1])
        drawn = [randomness.sample(row / row.sum()) for row in wide]
        return torch.tensor(drawn).view(*probs.shape[:-1], 1)

    kept = torch.rand, torch.rand_like, torch.multinomial
    torch.rand, torch.rand_like = rand, rand_like  # type: ignore[assignment]
    torch.multinomial = multinomial  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.rand, torch.rand_like, torch.multinomial = kept

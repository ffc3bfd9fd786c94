"""After an error inside, torch.rand stays replaced.

Made by whoever writes a context manager without `finally` (inference).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from minispec.exactness.rejection import OpenUniforms
from minispec.randomness import Randomness

REPLACES = "exactness/rejection.py:torch_draws_from"
CAUGHT_BY = ["test_exactness_kit.py"]


@contextmanager
def torch_draws_from(randomness: Randomness) -> Iterator[None]:
    def rand(*size: Any, dtype: torch.dtype | None = None, **_: Any) -> OpenUniforms:
        return OpenUniforms(torch.empty(*size, dtype=dtype), randomness)

    def rand_like(like: Tensor, **_: Any) -> OpenUniforms:
        return OpenUniforms(like, randomness)

    def multinomial(probs: Tensor, num_samples: int, *_: Any, **__: Any) -> Tensor:
        if not (probs >= 0).all() or not (probs.sum(-1) > 0).all():
            raise RuntimeError("torch.multinomial refuses NaN, negative or no mass")
        wide = probs.double().view(-1, probs.shape[-1])
        drawn = [randomness.sample(row / row.sum()) for row in wide]
        return torch.tensor(drawn).view(*probs.shape[:-1], 1)

    kept = torch.rand, torch.rand_like, torch.multinomial
    torch.rand, torch.rand_like, torch.multinomial = rand, rand_like, multinomial
    yield
    torch.rand, torch.rand_like, torch.multinomial = kept

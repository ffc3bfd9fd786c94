"""Medusa: several heads on one hidden state, each guessing one position further ahead.

    head_k(f) = f + SiLU(f W_k + b_k),  k = 0, 1, ...      then the target's own output

    f of position t:  target's head -> t + 1    head_0 -> t + 2    head_1 -> t + 3 ...

The newest hidden state is that of position n - 2, and its token n - 1 is committed. So
the first draft, token n, comes from head_0, and all drafts from one small pass.

The heads do not know each other's draws. Row k is the distribution of token n + k over
all that might stand in between, so acceptance falls with the position: where "king" and
"queen" are equally likely, and each has one word that follows, head_1 splits its mass
between the two words and is right half the time. Even head_0 does not know token n - 1.
Each row is still what its token was drawn from, so the output distribution is exact.

Paper: Cai et al. 2024, "Medusa" (arXiv 2401.10774), section 2.1.1. Left out: training
the target along (Medusa-2, which changes it), and typical acceptance, which is lossy.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minispec.core.draft import Drafter
from minispec.core.randomness import Randomness
from minispec.core.sampling import Sampling
from minispec.drafters.heads import Drafts, Head, HeadDrafter
from minispec.model.gpt2 import GPT, GPTConfig
from minispec.model.layers import Conv1D
from minispec.trees.choices import child_rows


class Medusa(Head):
    """One matrix for each position ahead."""

    kind = "medusa"

    def __init__(self, target: GPTConfig, n_heads: int = 4) -> None:
        super().__init__(target, n_heads=n_heads)
        E = target.n_embd
        self.heads = nn.ModuleList(Conv1D(E, E) for _ in range(n_heads))

    def initialize(self, generator: torch.Generator) -> Head:
        """All 0: at first, every head says what the target's own head says."""
        for parameter in self.parameters():
            nn.init.zeros_(parameter)
        return self

    def forward(self, features: Tensor) -> Tensor:  # [1, T, E] -> [K, T, E]
        """What the target's head is to read, for each position ahead."""
        return torch.cat([features + F.silu(head(features)) for head in self.heads])

    def drafter(self, target: GPT, sampling: Sampling = Sampling()) -> Drafter:
        return MedusaDrafter(self, target, sampling)


class MedusaDrafter(HeadDrafter):
    """A chain of one token from each head; it keeps nothing between rounds."""

    head: Medusa

    def draft(self, drafts: Drafts, randomness: Randomness) -> None:
        for logits in self.logits()[: drafts.gamma]:
            drafts.draw(logits[None], randomness)

    @torch.inference_mode()
    def choices(self, prefix: Tensor) -> Tensor:  # [n] -> [K, V]
        """Every head's row at once, to take the children of trees from.

        No rows while the target has not been through the prompt. What depends on the
        text (a penalty, coupled noise) sees the most probable path before it.
        """
        rows, path = [torch.empty(0, self.vocab_size, device=prefix.device)], prefix
        if self.cache.length == len(prefix) - 1 > 0:
            for logits in self.logits():
                rows.append(child_rows(logits[None], self.sampling, path))
                path = torch.cat([path, rows[-1].argmax(dim=-1)])
        return torch.cat(rows)

    def logits(self) -> Tensor:  # -> [K, V]
        """All heads on the newest hidden state, through the target's output matrix."""
        newest = self.features(self.cache.length - 1)
        return self.target.head(self.head(newest))[:, 0]

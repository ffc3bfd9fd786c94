"""EAGLE: guess the target's next hidden state, and let its own head read the guess.

    (f_i, embedding of t_i+1) -> fc -> one block -> guess of f_i+1 -> head -> t_i+2
      `------ shifted by one

The last hidden state f_i is what the target turned into token i + 1. Which token was
drawn is chance that f_i cannot know, so the head is also told the token: it sees the
features of positions up to i and the tokens up to i + 1. Without the shift it must
guess the draw as well (weights/README.md has both losses).

The block has a cache of its own, in which row i belongs to (f_i, t_i+1). While a round
drafts, the newest rows are built from guesses. Verification then brings the real
features, so `rollback` drops every row that was built from a guess, accepted or not,
and the next round feeds the real ones in one pass with its first draft.

`Eagle3` differs in two things: what it reads is fused from a low, a middle and the last
layer, and what it feeds itself is its own output, which need not resemble a feature.
Both are trained as they are used, on their own outputs (`scripts/head_recipes.py`).

A drafted token costs one small step, which must be cheap: `folded` has it.

Papers: Li et al. 2024, "EAGLE" (arXiv 2401.15077), section 3.1; Li et al. 2025,
"EAGLE-3" (arXiv 2503.01840), section 3. Left out: trees of drafts, and the smaller
vocabulary that the third form drafts in.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from minispec.core.draft import Drafter
from minispec.core.randomness import Randomness
from minispec.core.rollback import rollback
from minispec.core.sampling import Sampling
from minispec.drafters.folded import Affine, Folded
from minispec.drafters.heads import Drafts, Head, HeadDrafter
from minispec.model.attention import fused_attention
from minispec.model.gpt2 import GPT, Block, GPTConfig
from minispec.model.kv_cache import KVCache
from minispec.model.layers import Conv1D, LayerNorm


class Eagle(Head):
    """One block of width h between two matrices; it reads the last hidden state."""

    kind = "eagle"

    def __init__(self, target: GPTConfig, width: int = 128, n_head: int = 4) -> None:
        super().__init__(target, width=width, n_head=n_head)
        E, config = target.n_embd, GPTConfig(1, n_head, width)
        self.fc = Conv1D(self.width_read + E, width)
        self.block = Block(config, 0, fused_attention)
        self.ln = LayerNorm(width, config.layer_norm_epsilon)
        self.out = Conv1D(width, E)

    @property
    def width_read(self) -> int:
        """How wide the features are that `fc` reads beside the embedding."""
        return self.target_config.n_embd

    def read(self, target: GPT, taps: dict[int, Tensor], rows: slice) -> Tensor:
        """The features of some positions, from the target's tapped layers: [B, T, *]"""
        return target.ln_f(taps[self.layers[-1]][:, rows])

    def forward(
        self,
        features: Tensor,
        embeddings: Tensor,
        cache: KVCache | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """What stands for the next position's features, real or guessed, and what the
        target's head is to read: [B, T, *], [B, T, E] -> [B, T, *], [B, T, E]."""
        x = self.fc(torch.cat([features, embeddings], dim=-1))
        guess = self.out(self.ln(self.block(x, cache, mask)))
        return guess, guess

    def folded(self, target: GPT) -> Folded:
        """For drafting. A guess is a feature: `out` made it, and `fc` reads it."""
        W_f, W_e = self.fc.weight.split([self.width_read, target.config.n_embd])
        rows = target.wte.weight @ W_e + self.fc.bias
        real = Affine(rows, W_f)
        guessed = Affine(rows + self.out.bias @ W_f, self.out.weight @ W_f)
        return Folded(self.block, self.ln, real, guessed, self.to_logits(target))

    def to_logits(self, target: GPT) -> Affine:
        """`out`, and then the target's head."""
        both = torch.cat([self.out.bias[None], self.out.weight])
        rows = target.head(both[None])[0]
        return Affine(rows[0], rows[1:])

    def drafter(self, target: GPT, sampling: Sampling = Sampling()) -> Drafter:
        return EagleDrafter(self, target, sampling)


class Eagle3(Eagle):
    """Reads three layers at once, and then its own output, which nothing shapes."""

    kind = "eagle3"

    def __init__(self, target: GPTConfig, width: int = 128, n_head: int = 4) -> None:
        super().__init__(target, width, n_head)
        n, eps = len(self.layers), target.layer_norm_epsilon
        self.norms = nn.ModuleList(LayerNorm(target.n_embd, eps) for _ in range(n))
        self.fuse = Conv1D(n * target.n_embd, width)
        self.ln_fuse = LayerNorm(width, eps)

    @property
    def layers(self) -> tuple[int, ...]:
        L = self.target_config.n_layer
        return L // 6, L // 2, L - 1

    @property
    def width_read(self) -> int:
        return self.sizes["width"]

    def read(self, target: GPT, taps: dict[int, Tensor], rows: slice) -> Tensor:
        streams = zip(self.norms, self.layers)
        normed = [norm(taps[layer][:, rows]) for norm, layer in streams]
        return self.ln_fuse(self.fuse(torch.cat(normed, dim=-1)))

    def forward(
        self,
        features: Tensor,
        embeddings: Tensor,
        cache: KVCache | None = None,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        x = self.fc(torch.cat([features, embeddings], dim=-1))
        own = self.ln(self.block(x, cache, mask))
        return own, self.out(own)

    def folded(self, target: GPT) -> Folded:
        """A guess goes back into `fc` as it is, like what `read` fused."""
        W_f, W_e = self.fc.weight.split([self.width_read, target.config.n_embd])
        read = Affine(target.wte.weight @ W_e + self.fc.bias, W_f)
        return Folded(self.block, self.ln, read, read, self.to_logits(target))


class EagleDrafter(HeadDrafter):
    """Drafts with a cache of its own, which real features alone survive a round in."""

    head: Eagle

    def __init__(
        self, head: Eagle, target: GPT, sampling: Sampling = Sampling()
    ) -> None:
        super().__init__(head, target, sampling)
        with torch.inference_mode():
            self.folded = head.folded(target)

    def begin(self, cache: KVCache) -> None:
        super().begin(cache)
        H, h = self.head.sizes["n_head"], self.head.sizes["width"]
        like = self.target.wte.weight
        self.rows = KVCache(
            1, H, h // H, cache.capacity, dtype=like.dtype, device=like.device
        )
        self.n_real = 0  # rows that were built from real features

    def draft(self, drafts: Drafts, randomness: Randomness) -> None:
        """All new real rows in one pass, then one row for each draft but the last."""
        folded, rows = self.folded, self.rows
        rollback(rows, drafts.n - 2)  # one text twice: its last row is fed again
        new = slice(rows.length, drafts.n - 1)
        features = self.head.read(self.target, self.cache.taps, new)[0]
        next_tokens = drafts.text[new.start + 1 : drafts.n]  # shifted by one
        guess = folded.after(features, next_tokens, folded.real, rows)[-1:]
        self.n_real = rows.length
        token = drafts.draw(folded.scores(guess), randomness)
        while drafts.K < drafts.gamma:
            guess = folded.after(guess, token, folded.guessed, rows)
            token = drafts.draw(folded.scores(guess), randomness)

    def rollback(self, length: int) -> None:
        """Only rows of real features stay: even an accepted guess was a guess."""
        rollback(self.rows, min(length, self.n_real))

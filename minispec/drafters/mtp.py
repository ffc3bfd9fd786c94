"""Multi-token prediction: one module for each position ahead, chained by the tokens.

    h^0_i = f_i, the target's last hidden state
    h^k_i = Block_k(M_k [norm(h^(k-1)_i); norm(embedding of t_i+k)])  -> head -> t_i+k+1

Module k sees every token before the one that it guesses, also those that were drafted:
the causal chain is complete, so acceptance does not fall with the position as it does
for `medusa`. `IndependentHeads` is the contrast: block k reads f alone, so its row is a
distribution over all the tokens that might stand in between.

Each module attends to its own past in its own cache, whose row i has seen the tokens up
to i + k. When a text of `length` + 1 tokens is committed, tokens up to `length` - 1 are
what the rows had seen, so module k keeps the first `length` - k rows. Nothing else is
needed: no row is built from a guessed feature, so those of accepted drafts are right.

Papers: DeepSeek-AI 2024, "DeepSeek-V3" (arXiv 2412.19437), section 2.2; Gloeckle et al.
2024, "Better & Faster LLMs via Multi-token Prediction" (arXiv 2404.19737), section 2.
Left out: training the target along, which is what both papers are about; and RMSNorm,
for which we have GPT-2's norm.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from minispec.core.draft import Drafter
from minispec.core.randomness import Randomness
from minispec.core.rollback import rollback
from minispec.core.sampling import Sampling
from minispec.drafters.heads import Drafts, Head, HeadDrafter
from minispec.model.attention import fused_attention
from minispec.model.gpt2 import GPT, Block, GPTConfig
from minispec.model.kv_cache import KVCache
from minispec.model.layers import Conv1D, LayerNorm


class Module(nn.Module):
    """The step from h^(k-1) and a token's embedding to h^k."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        E, eps = config.n_embd, config.layer_norm_epsilon
        self.norm_h, self.norm_e = LayerNorm(E, eps), LayerNorm(E, eps)
        self.mix = Conv1D(2 * E, E)
        self.block = Block(config, 0, fused_attention)
        self.ln = LayerNorm(E, eps)  # before the shared head

    def forward(
        self, hidden: Tensor, embeddings: Tensor, cache: KVCache | None = None
    ) -> Tensor:  # 2 x [B, T, E] -> [B, T, E]
        both = torch.cat([self.norm_h(hidden), self.norm_e(embeddings)], dim=-1)
        return self.block(self.mix(both), cache, None)


class Independent(nn.Module):
    """A block of its own on f; the token's embedding is not looked at."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.block = Block(config, 0, fused_attention)
        self.ln = LayerNorm(config.n_embd, config.layer_norm_epsilon)

    def forward(
        self, hidden: Tensor, embeddings: Tensor, cache: KVCache | None = None
    ) -> Tensor:  # 2 x [B, T, E] -> [B, T, E]
        return self.block(hidden, cache, None)


class MTP(Head):
    """DeepSeek-V3's modules, one after another."""

    kind = "mtp"
    module: type[Module] | type[Independent] = Module

    def __init__(
        self, target: GPTConfig, n_modules: int = 3, n_head: int = 4, n_inner: int = 256
    ) -> None:
        super().__init__(target, n_modules=n_modules, n_head=n_head, n_inner=n_inner)
        config = replace(target, n_layer=1, n_head=n_head, n_inner=n_inner)
        modules = (self.module(config) for _ in range(n_modules))
        self.modules_ahead = nn.ModuleList(modules)

    def reads(self, features: Tensor, hidden: Tensor) -> Tensor:
        """What the next module reads: of f and the last module's output, the latter."""
        return hidden

    def drafter(self, target: GPT, sampling: Sampling = Sampling()) -> Drafter:
        return MTPDrafter(self, target, sampling)


class IndependentHeads(MTP):
    """Gloeckle et al.'s heads: side by side on the target's last hidden state."""

    kind, module = "independent", Independent

    def reads(self, features: Tensor, hidden: Tensor) -> Tensor:
        return features


class MTPDrafter(HeadDrafter):
    """Module k drafts the k-th token, through the rows that its cache lacks."""

    head: MTP

    def begin(self, cache: KVCache) -> None:
        super().begin(cache)
        H, E, like = self.head.sizes["n_head"], self.target.config.n_embd, cache.keys[0]
        self.caches = [
            KVCache(1, H, E // H, cache.capacity, 1, like.dtype, like.device)
            for _ in self.head.modules_ahead
        ]
        for own in self.caches:
            own.tap(0)  # h^k beside the keys, under the same length

    def draft(self, drafts: Drafts, randomness: Randomness) -> None:
        end = drafts.n - 1
        source = features = self.features()
        pairs = zip(self.head.modules_ahead, self.caches)
        module: Any  # nn.ModuleList does not say what it holds
        for k, (module, own) in enumerate(pairs, start=1):
            if k > drafts.gamma:
                return
            rows = slice(own.length, end)
            tokens = drafts.text[rows.start + k : end + k]
            hidden = module(source[:, rows], self.target.wte(tokens[None]), own)
            own.record(0, hidden)
            own.advance(hidden.shape[1])
            newest = module.ln(hidden[:, -1:])
            drafts.draw(self.target.head(newest)[0], randomness)
            source = self.head.reads(features, own.taps[0])

    def rollback(self, length: int) -> None:
        """Row i of module k has seen token i + k, which must be among `length`."""
        for k, own in enumerate(self.caches, start=1):
            rollback(own, max(0, length - k))

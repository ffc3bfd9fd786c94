"""Block diffusion: all drafts in one pass, by filling in a block of masks.

    context         block of K + 1 rows                what the last K rows say
    f0 f1 .. fn-2   token n-1  MASK 1  ..  MASK K      token n ..  token n-1+K
    `- target's     `- committed, not yet through the target
       features

Each row of the block sees the whole context and the whole block, in both directions;
the context sees nothing of the block. It enters as keys and values only: hidden states
of a low, a middle and the last layer of the target, fused by one matrix. The target's
own embedding stands before the block, and its `ln_f` and output matrix after it. One
pass costs the same for one draft or for many.

What it costs instead. A row cannot know what the rows before it will draw, so the
drafts' distribution factorises over positions. Take a target that says "A B" or "C D",
each half the time. Row 1 is right: A or C. The best row 2 is B or D, each half the
time, whatever row 1 drew; after A the target wants B alone, so draft 2 is accepted with
probability min(1, 1/2) + min(0, 1/2) = 1/2. A drafter that looks at its first draft has
1. The text is exact either way, since each row declared is the row drawn from; only
speed is lost. A drafter that knew the text would lose it only where text has entropy:
in greedy text one continuation has all the mass, which factorises. The shipped head's
first two drafts are accepted at rates of .77 and .40 at temperature 1, of .76 and .63
in greedy text.

Training: a block after random anchors of a text, and KL(target || row k) where the
target has read the text up to there, weighted by exp(-(k - 1) / 2), since draft k
counts only if those before it were accepted.

Paper: Chen et al. 2026, "DFlash: Block Diffusion for Flash Speculative
Decoding" (arXiv 2602.06036). Left out: several steps of denoising, and greedy drafts
whatever the temperature, as its code makes them.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minispec.core.draft import Drafter
from minispec.core.randomness import Randomness
from minispec.core.rollback import rollback
from minispec.core.sampling import Sampling
from minispec.drafters.heads import Drafts, Head, HeadDrafter
from minispec.model.attention import fused_attention
from minispec.model.gpt2 import GPT, Block, GPTConfig
from minispec.model.kv_cache import KVCache
from minispec.model.layers import Conv1D, Embedding


class BlockDiffusion(Head):
    """`n_layer` blocks, narrower than the target's, for at most `longest` drafts."""

    kind = "block-diffusion"

    def __init__(
        self, target: GPTConfig, width: int, n_head: int, n_layer: int, longest: int
    ) -> None:
        sizes = {"width": width, "n_head": n_head, "n_layer": n_layer}
        super().__init__(target, **sizes, longest=longest)
        self.longest, self.blocks = longest, GPTConfig(n_layer, n_head, width)
        E = target.n_embd
        self.fuse = Conv1D(len(self.layers) * E, width)
        self.masks = Embedding(longest, E)
        self.c_in, self.c_out = Conv1D(E, width), Conv1D(width, E)
        self.h = nn.ModuleList(
            Block(self.blocks, layer, fused_attention) for layer in range(n_layer)
        )

    @property
    def layers(self) -> tuple[int, ...]:
        n = self.target_config.n_layer
        return tuple(sorted({n // 6, n // 2, n - 1}))

    def new_cache(self, capacity: int, like: Tensor, batch: int = 1) -> KVCache:
        """For the context's keys and values in each block, and the block's own."""
        n_layer, n_head, width = (self.sizes[n] for n in ("n_layer", "n_head", "width"))
        D = width // n_head
        return KVCache(n_layer, n_head, D, capacity, batch, like.dtype, like.device)

    def read(
        self, target: GPT, taps: list[Tensor], cache: KVCache
    ) -> None:  # each [B, T, E]
        """Add positions of the context, from what the target made of them.

        Each is told its place, as the block's rows are: it matters which are the last.
        """
        B, T, _ = taps[0].shape
        places = target.wpe.weight[cache.length : cache.length + T]
        even = [F.layer_norm(tap, tap.shape[-1:]) for tap in taps]
        x = self.fuse(torch.cat(even, dim=-1)) + self.c_in(places[None])
        block: Any  # nn.ModuleList does not say what it holds
        for layer, block in enumerate(self.h):
            heads = block.attn.c_attn(block.ln_1(x))
            heads = heads.view(B, T, 3, self.blocks.n_head, -1).permute(2, 0, 3, 1, 4)
            cache.append(layer, heads[1], heads[2])
        cache.advance(T)

    def rows(
        self, target: GPT, anchors: Tensor, positions: Tensor, K: int
    ) -> Tensor:  # [B, A], [B, A] -> [B, A, K + 1, E]
        """Blocks as they go in: a known token each and K masks, at their positions."""
        masks = self.masks.weight[:K].expand(*anchors.shape, K, -1)
        block = torch.cat([target.wte(anchors)[:, :, None], masks], dim=2)
        steps = torch.arange(K + 1, device=anchors.device)
        return block + target.wpe.weight[positions[:, :, None] + steps]

    def forward(
        self, rows: Tensor, context: KVCache, mask: Tensor
    ) -> Tensor:  # [B, T, E], [T, S + T] -> [B, T, E]
        """What fills the rows, ready for the target's `ln_f`.

        Their keys and values lie after the context's and are not counted: the next
        append overwrites them.
        """
        x = self.c_in(rows)
        for block in self.h:
            x = block(x, context, mask)
        return self.c_out(x)

    def drafter(self, target: GPT, sampling: Sampling = Sampling()) -> Drafter:
        return BlockDiffusionDrafter(self, target, sampling)


class BlockDiffusionDrafter(HeadDrafter):
    """One pass of the blocks, then every draft from its own row of it.

    `context` holds keys and values of what the target has read, from the target's real
    hidden states alone.
    """

    head: BlockDiffusion

    def begin(self, cache: KVCache) -> None:
        super().begin(cache)
        like = self.target.wte.weight
        self.context = self.head.new_cache(cache.capacity, like)

    def draft(self, drafts: Drafts, randomness: Randomness) -> None:
        head, target, S = self.head, self.target, self.cache.length
        taps = [self.cache.taps[layer] for layer in head.layers]
        new = [tap[:, self.context.length : S] for tap in taps]
        head.read(target, new, self.context)
        K = min(drafts.gamma, head.longest)
        anchor = drafts.text[None, None, S]
        rows = head.rows(target, anchor, anchor.new_tensor([[S]]), K)[0]
        open_to_all = rows.new_zeros(K + 1, S + K + 1)
        hidden = head(rows, self.context, open_to_all)[:, 1:]  # without the anchor's
        for logits in target.head(target.ln_f(hidden))[0].split(1):
            drafts.draw(logits, randomness)

    def rollback(self, length: int) -> None:
        rollback(self.context, length)

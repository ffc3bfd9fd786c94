"""How each head is taught: what it is, its loss, and for how long.

The losses compare a head's guesses with the target's own distributions at the same
places of the text: cross-entropy, in nats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from training import Plan

from minispec.drafters.block_diffusion import BlockDiffusion
from minispec.drafters.eagle import Eagle, Eagle3
from minispec.drafters.early_exit import EarlyExit
from minispec.drafters.heads import Head
from minispec.drafters.medusa import Medusa
from minispec.drafters.mtp import MTP, IndependentHeads
from minispec.model.gpt2 import GPT, GPTConfig


@dataclass(frozen=True)
class Batch:
    """B windows of T tokens, and what layers of the target made of them."""

    target: GPT
    ids: Tensor  # [B, T]
    taps: dict[int, Tensor]  # by layer, [B, T, E]: the residual stream, as in KVCache

    @cached_property
    def features(self) -> Tensor:  # [B, T, E]
        """The last hidden states after `ln_f`."""
        return self.target.ln_f(self.taps[self.target.config.n_layer - 1])

    @cached_property
    def truth(self) -> Tensor:  # [B, T, V]
        """The target's distribution of token t + 1, given the tokens up to t."""
        with torch.no_grad():
            return self.target.head(self.features).float().softmax(dim=-1)


@dataclass(frozen=True)
class Recipe:
    """A head and how to train it."""

    make: Callable[[GPTConfig], Head]  # of the target's shape; without values
    loss: Callable[[Any, Batch], Tensor]  # of one batch, in nats
    plan: Plan
    length: int = 256  # of the windows it is trained on, cut out of longer ones
    plays_alone: float = 0.5  # of the steps; then half of each batch are own texts
    after: str | None = None  # the recipe whose head it begins from


def imitation(truth: Tensor, logits: Tensor) -> Tensor:  # 2 x [B, T, V] -> []
    """Mean cross-entropy of the head under the target's distributions, in nats.

    It differs from KL(target || head) by the target's entropy, so its gradient is the
    same, and it takes half the time.
    """
    return F.cross_entropy(logits.float().flatten(0, 1), truth.flatten(0, 1))


class Unrolled:
    """A cache for training: the keys of every depth side by side, [B, H, (k + 1) T, D].

    Row j at depth k was guessed k times in a row: it sees the real rows up to j - k and
    then the guesses that lead up to it, one of each depth.
    """

    def __init__(self) -> None:
        self.rows: tuple[Tensor, Tensor] | None = None

    def append(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        if self.rows is not None:
            key = torch.cat([self.rows[0], key], dim=2)
            value = torch.cat([self.rows[1], value], dim=2)
        self.rows = key, value
        return self.rows


def unrolled_mask(T: int, depth: int) -> Tensor:  # -> [T, (depth + 1) T]
    """0 where row j at this depth may look, -inf elsewhere."""
    back = torch.arange(T)[:, None] - torch.arange(T)  # j - i
    seen = [back >= depth, *(back == depth - m for m in range(1, depth + 1))]
    return torch.zeros(T, (depth + 1) * T).where(torch.cat(seen, dim=1), -torch.inf)


def unrolled(
    head: Eagle, features: Tensor, embeddings: Tensor, depth: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """`head`'s results after real features, after one guess, ... (training-time test).

    [B, T, *], [B, T, E] -> `depth` times (guesses [B, T, *], for the head [B, T, E])
    """
    cache = Unrolled()
    for k in range(depth):
        mask = unrolled_mask(embeddings.shape[1], k).to(embeddings.dtype)
        guess, seen = head(features, embeddings, cache, mask)
        yield guess, seen
        features = F.pad(guess, (0, 0, 1, 0))[:, :-1]  # what was guessed for row j


def eagle_loss(
    head: Eagle, batch: Batch, shift: int = 1, depth: int = 1, wide: bool = True
) -> Tensor:
    """Distributions of position i + 1, from f_i and token i + `shift`, or from guesses.

    With `wide`, its features too: what is guessed shall be one.
    """
    T, loss = batch.ids.shape[1] - 1, torch.zeros(())
    features = head.read(batch.target, batch.taps, slice(None, -1))
    embeddings = batch.target.wte(batch.ids[:, shift : shift + T])
    for k, (guess, seen) in enumerate(unrolled(head, features, embeddings, depth)):
        logits = batch.target.head(seen[:, k:])
        one = imitation(batch.truth[:, 1 + k :], logits)
        if wide:
            one = one + F.smooth_l1_loss(guess[:, k:], batch.features[:, 1 + k :])
        loss = loss + 0.8**k * one
    return loss / sum(0.8**k for k in range(depth))


def early_exit_loss(head: EarlyExit, batch: Batch) -> Tensor:
    """Imitation from the hidden state of a low layer, the same position's."""
    (layer,) = head.layers
    seen = batch.target.ln_f(head(batch.taps[layer]))
    return imitation(batch.truth, batch.target.head(seen))


def block_diffusion_loss(
    head: BlockDiffusion, batch: Batch, n_blocks: int = 40
) -> Tensor:
    """Imitation by blocks after random anchors, the first drafts weighing most."""
    (B, T), K = batch.ids.shape, head.longest
    anchors = torch.randint(1, T - K, (B, n_blocks))  # torch is seeded for each step
    ours = block_logits(head, batch, anchors).float().log_softmax(dim=-1)
    # Row k fills anchor + k, which the target guesses one position before.
    at = (anchors[..., None] + torch.arange(K)).flatten(1)
    truth = batch.truth[torch.arange(B)[:, None], at].view_as(ours)
    losses = -(truth * ours).sum(-1)
    weights = (-torch.arange(K) / 2).exp()
    return (losses.mean(dim=(0, 1)) * weights).sum() / weights.sum()


def block_logits(
    head: BlockDiffusion, batch: Batch, anchors: Tensor
) -> Tensor:  # [B, A] -> [B, A, K, V]
    """What the masks after each anchor say, all blocks in one pass."""
    (B, T), K = batch.ids.shape, head.longest
    rows = head.rows(batch.target, batch.ids.gather(1, anchors), anchors, K)
    context = head.new_cache(T + rows[0, ..., 0].numel(), rows, B)
    head.read(batch.target, [batch.taps[layer] for layer in head.layers], context)
    hidden = head(rows.flatten(1, 2), context, block_mask(anchors, T, K).to(rows))
    drafts = hidden.unflatten(1, (-1, K + 1))[:, :, 1:]
    return batch.target.head(batch.target.ln_f(drafts))


def block_mask(anchors: Tensor, T: int, K: int) -> Tensor:  # [B, A] -> [B, 1, R, T + R]
    """0 where a block may look: the context before its anchor, and all of itself."""
    owner = torch.arange(anchors.shape[1]).repeat_interleave(K + 1)
    before = torch.arange(T) < anchors[:, owner, None]
    itself = (owner[:, None] == owner).expand(len(anchors), -1, -1)
    seen = torch.cat([before, itself], dim=2)[:, None]
    return torch.zeros(seen.shape).where(seen, -torch.inf)


def medusa_loss(head: Medusa, batch: Batch) -> Tensor:
    """Head k reads f_i and learns the distribution of token i + 2 + k.

    The target's row there is conditioned on what stands in between, which the head does
    not see; so what it learns is the mean over texts.
    """
    B, T, _ = batch.features.shape
    losses = []
    for k, seen in enumerate(head(batch.features).split(B)):
        ahead = k + 1  # positions on, the row i + ahead is that of token i + 2 + k
        logits = batch.target.head(seen[:, : T - ahead])
        losses.append(imitation(batch.truth[:, ahead:], logits))
    return torch.stack(losses).mean()


def mtp_loss(head: MTP, batch: Batch) -> Tensor:
    """Module k has seen tokens up to i + k and imitates that of token i + k + 1."""
    T, losses = batch.ids.shape[1], []
    source = batch.features
    module: Any  # nn.ModuleList does not say what it holds
    for k, module in enumerate(head.modules_ahead, start=1):
        embeddings = batch.target.wte(batch.ids[:, k:])
        hidden = module(source[:, : T - k], embeddings)
        logits = batch.target.head(module.ln(hidden))
        losses.append(imitation(batch.truth[:, k:], logits))
        source = head.reads(batch.features, hidden)
    return torch.stack(losses).mean()


EAGLE_PLAN = Plan(5000, 3e-3, weight_decay=0.01, seed=11)
# EAGLE of 2024 learns from real features alone. Then it is taught on at its own
# guesses, as in HASS (Zhang et al. 2025, arXiv 2408.15766).
TAUGHT_ON = Plan(3000, 1e-3, weight_decay=0.01, seed=18)

RECIPES: dict[str, Recipe] = {
    "eagle-2024": Recipe(Eagle, eagle_loss, EAGLE_PLAN),
    "eagle-no-shift": Recipe(Eagle, partial(eagle_loss, shift=0), EAGLE_PLAN),
    "eagle": Recipe(
        Eagle,
        partial(eagle_loss, depth=3),
        TAUGHT_ON,
        plays_alone=0.0,
        after="eagle-2024",
    ),
    "eagle3": Recipe(
        Eagle3,
        partial(eagle_loss, depth=3, wide=False),
        replace(EAGLE_PLAN, n_steps=4000, seed=12),
    ),
    "medusa": Recipe(Medusa, medusa_loss, Plan(2000, 2e-3, weight_decay=0, seed=13)),
    "mtp": Recipe(MTP, mtp_loss, Plan(1200, 2e-3, weight_decay=0.01, seed=14)),
    "independent": Recipe(
        IndependentHeads, mtp_loss, Plan(1000, 2e-3, weight_decay=0.01, seed=15)
    ),
    "early-exit": Recipe(  # the best of them, trained for longer
        partial(EarlyExit, n_lower=1, n_inner=256),
        early_exit_loss,
        Plan(3000, 3e-3, weight_decay=0.01, seed=16),
    ),
    **{
        f"early-exit-{n}": Recipe(
            partial(EarlyExit, n_lower=n, n_inner=256),
            early_exit_loss,
            Plan(1000, 3e-3, weight_decay=0.01, seed=16),
        )
        for n in (1, 2, 3, 4, 6)
    },
    "block-diffusion": Recipe(
        partial(BlockDiffusion, width=192, n_head=4, n_layer=1, longest=5),
        block_diffusion_loss,
        Plan(10000, 3e-3, weight_decay=0.01, seed=17),
        length=512,  # whole windows: its rows must be told their true positions
    ),
}

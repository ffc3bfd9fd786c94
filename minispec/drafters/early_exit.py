"""Early exit: the target's lower layers draft for the whole of it.

    a draft          layers 1..E -> exit -> ln_f, head          E layers for one token
    a verification   layers 1..E -> layers E+1..L -> ln_f, head     as it always was
                     `- already computed for all drafts but the last

    exit(x) = x + W2 gelu(W1 norm(x))

Untrained, with W2 = 0, this is the bare head: the hidden state after E layers goes
straight into ln_f and the output matrix (the "logit lens"). It drafts poorly, since
layer E writes for layer E + 1 and not for the head. The small adapter translates.

No layer is computed twice. What a causal layer says at a position does not depend on
what comes later, so the keys, values and hidden states that the lower layers compute
while they draft are those that verification needs. They go into the target's own cache:
a second length over the same memory (`KVCache.view`) says how far the lower layers have
run ahead, and a tap keeps their outputs. Verification feeds them the last draft only,
and the upper layers all K + 1 positions.

Nothing survives a round. Every draft takes a fresh view of what is committed, so that
rejected rows are never read, and there is nothing to roll back. Nor need a round begin
without drafts: the lower layers can read the prompt first.

Paper: Elhoushi et al. 2024, "LayerSkip" (arXiv 2404.16710), sections 4.2 and 4.3. Left
out: its section 4.1, which trains the whole model for early exits. Ours leaves the
target as it is, so the exit makes do with what the lower layers happen to know.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from minispec.core.draft import Drafter, Proposal
from minispec.core.randomness import Randomness
from minispec.core.sampling import Sampling
from minispec.drafters.heads import Drafts, Head, check_cache, check_target
from minispec.model.attention import causal_mask
from minispec.model.gpt2 import GPT, MLP, GPTConfig
from minispec.model.kv_cache import KVCache
from minispec.model.layers import LayerNorm


class EarlyExit(Head):
    """The exit after `n_lower` layers, an adapter of width `n_inner`."""

    kind = "early-exit"

    def __init__(self, target: GPTConfig, n_lower: int, n_inner: int) -> None:
        """Raises ValueError for an exit that leaves no layer below or above it."""
        super().__init__(target, n_lower=n_lower, n_inner=n_inner)
        if not 1 <= n_lower < target.n_layer:
            raise ValueError(
                f"an exit from {target.n_layer} layers must lie after at least 1 and "
                f"at most {target.n_layer - 1}, got {n_lower}"
            )
        self.n_lower = n_lower
        self.ln = LayerNorm(target.n_embd, target.layer_norm_epsilon)
        self.mlp = MLP(replace(target, n_inner=n_inner))

    @property
    def layers(self) -> tuple[int, ...]:
        return (self.n_lower - 1,)

    def initialize(self, generator: torch.Generator) -> Head:
        """As the bare head: the adapter adds nothing yet."""
        super().initialize(generator)
        nn.init.zeros_(self.mlp.c_proj.weight)
        return self

    def forward(self, x: Tensor) -> Tensor:  # [B, T, E] -> [B, T, E]
        return x + self.mlp(self.ln(x))

    def drafter(self, target: GPT, sampling: Sampling = Sampling()) -> Drafter:
        return EarlyExitDrafter(self, target, sampling)


class StagedTarget(GPT):
    """The target, whose lower layers may have run ahead: same weights, same logits."""

    def __init__(self, target: GPT, n_lower: int) -> None:
        nn.Module.__init__(self)
        vars(self).update(vars(target))  # its very modules: no memory of its own
        self.n_lower = n_lower
        self.ahead: KVCache | None = None  # from a draft to its verification

    def run_ahead(self, ids: Tensor, cache: KVCache) -> Tensor:  # [B, T] -> [B, T, E]
        """The lower layers alone, on ids that continue what `cache` holds."""
        x = self.wte(ids) + self._positions(cache.length, ids.shape[1], None)
        return self._run(range(self.n_lower), x, cache)

    def trunk(
        self,
        ids: Tensor,
        cache: KVCache | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """As the target's, but the lower layers skip what they have seen already."""
        ahead, self.ahead = self.ahead, None
        if cache is None or ahead is None or ahead.keys is not cache.keys:
            return super().trunk(ids, cache, positions, mask)  # none has run ahead
        return self.catch_up(ids, cache, ahead)

    def catch_up(
        self, ids: Tensor, cache: KVCache, ahead: KVCache
    ) -> Tensor:  # [B, T] -> [B, T, E]
        """The lower layers read the ids beyond `ahead`, then the upper ones read all.

        The ids continue `cache`; of the first `ahead.length - cache.length` the tap
        has the lower layers' output already.
        """
        self.run_ahead(ids[:, ahead.length - cache.length :], ahead)
        x = cache.taps[self.n_lower - 1][:, cache.length : ahead.length]
        return self.ln_f(self._run(range(self.n_lower, len(self.h)), x, cache))

    def _run(self, layers: range, x: Tensor, cache: KVCache) -> Tensor:
        """Some of the layers, on positions after the cache: [B, T, E] -> [B, T, E]."""
        T, S = x.shape[1], cache.length
        mask = causal_mask(T, S + T, like=x) if S else None
        for layer in layers:
            x = self.h[layer](x, cache, mask)
            cache.record(layer, x)
        cache.advance(T)
        return x


class EarlyExitDrafter(Drafter):
    """Drafts with the target's lower layers. Decode with `drafter.target` as target.

    With the plain target the text is as right, and the lower layers work twice.
    """

    def __init__(
        self, head: EarlyExit, target: GPT, sampling: Sampling = Sampling()
    ) -> None:
        check_target(head, target)
        self.head, self.sampling = head, sampling
        self.vocab_size = target.config.vocab_size
        self.target = StagedTarget(target, head.n_lower)

    def begin(self, cache: KVCache) -> None:
        check_cache(cache, self.target)
        self.cache = cache
        cache.tap(self.head.n_lower - 1)

    @torch.inference_mode()
    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        """Draw tokens one after another, each after a pass of the lower layers."""
        target, ahead = self.target, self.cache.view()
        drafts = Drafts(prefix, gamma, target, self.sampling)
        unseen = prefix[ahead.length :]
        for _ in range(gamma):
            hidden = target.run_ahead(unseen[None], ahead)[:, -1:]
            logits = target.head(target.ln_f(self.head(hidden)))[0]
            unseen = drafts.draw(logits, randomness)
        target.ahead = ahead
        return drafts.proposal()

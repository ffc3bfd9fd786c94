"""Drafters that read the target's mind: what all small trained heads share.

    target's hidden states (cache.taps)  ->  head  ->  logits through the target's own
    prefix's last token, its embedding                 output matrix -> drafts

The target has thought about the text already. A head is a small network that turns what
it thought, the hidden states that its cache keeps (`KVCache.tap`), into guesses of the
next tokens. It shares the target's embedding and output matrix, so it is small; and it
is useless for any other target, so its folder says which one it belongs to.

The newest committed token has not been through the target: with a prefix of n tokens
the target's cache holds n - 1, and the newest hidden state is that of position n - 2,
which the target turned into token n - 1. While the cache holds less (the prompt has not
been through the target), a head has nothing to read and proposes nothing.

To read next, from the plainest: `medusa`, `mtp`, `early_exit`, `eagle`,
`block_diffusion`. Their files are the business of `files/head.py`.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from minispec.core.draft import Drafter, Proposal
from minispec.core.randomness import Randomness
from minispec.core.sampling import Sampling, logits_to_probs
from minispec.model.gpt2 import GPT, GPTConfig
from minispec.model.kv_cache import KVCache


class Head(nn.Module):
    """A small network trained for one target. Subclasses build layers and a drafter.

    `sizes` are the whole numbers it was built with, as config.json states them; the
    subclass's constructor takes them by name. Like `GPT`, it has no values yet.
    """

    kind: ClassVar[str]

    def __init__(self, target: GPTConfig, **sizes: int) -> None:
        super().__init__()
        self.target_config, self.sizes = target, sizes

    @property
    def layers(self) -> tuple[int, ...]:
        """Which layers of the target it reads, counted from 0; by default the last."""
        return (self.target_config.n_layer - 1,)

    def initialize(self, generator: torch.Generator) -> Head:
        """Fresh values: small random matrices, norms of 1, biases of 0."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if name.endswith("bias"):
                    parameter.zero_()
                elif parameter.ndim == 1:
                    parameter.fill_(1.0)
                else:
                    parameter.normal_(0.0, 0.02, generator=generator)
        return self

    def drafter(self, target: GPT, sampling: Sampling = Sampling()) -> Drafter:
        """The drafter that drafts with it for `target`."""
        raise NotImplementedError


def check_target(head: Head, target: GPT) -> None:
    """Raise ValueError for a target of another shape than the head was built for.

    And for one of another type, or on another device, than the head is.
    """
    ours, theirs = head.target_config, getattr(target, "config", None)
    for name in ("n_layer", "n_embd", "vocab_size"):
        has, expected = getattr(theirs, name, None), getattr(ours, name)
        if has != expected:
            raise ValueError(
                f"the head reads a target of {name} {expected}, got one of "
                f"{has!r:.80}: give the target that it was built for"
            )
    like = target.wte.weight
    for weight in head.parameters():
        if (weight.dtype, weight.device) != (like.dtype, like.device):
            raise ValueError(
                f"the head is of {weight.dtype} on {weight.device} and its target of "
                f"{like.dtype} on {like.device}: head.to(target.wte.weight) converts it"
            )


def check_cache(cache: KVCache, target: GPT) -> None:
    """Raise ValueError for the cache of a target of another shape, or of a part."""
    L, (_, H, _, D), config = len(cache.keys), cache.keys[0].shape, target.config
    if (L, H * D) != (config.n_layer, config.n_embd):
        raise ValueError(
            f"the drafter reads a whole target of {config.n_layer} layers of width "
            f"{config.n_embd}, and the one that decodes has {L} of width {H * D}: "
            "decode with the target that the drafter was made for"
        )


class HeadDrafter(Drafter):
    """What the drafters of heads share: taps at the start, and no drafts before."""

    def __init__(
        self, head: Head, target: GPT, sampling: Sampling = Sampling()
    ) -> None:
        check_target(head, target)
        self.head, self.target, self.sampling = head, target, sampling
        self.vocab_size = target.config.vocab_size

    def begin(self, cache: KVCache) -> None:
        check_cache(cache, self.target)
        self.cache = cache  # the target's
        for layer in self.head.layers:
            cache.tap(layer)

    @torch.inference_mode()
    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        """No drafts until the target has been through all but the last token."""
        ready = gamma > 0 and self.cache.length == len(prefix) - 1 > 0
        drafts = Drafts(prefix, gamma if ready else 0, self.target, self.sampling)
        if ready:
            self.draft(drafts, randomness)
        return drafts.proposal()

    def draft(self, drafts: Drafts, randomness: Randomness) -> None:
        """Draw up to `drafts.gamma` tokens with `drafts.draw`."""
        raise NotImplementedError

    def features(self, first: int = 0) -> Tensor:  # -> [1, cache.length - first, E]
        """The target's hidden states after `ln_f`, of the positions from `first` on."""
        last = self.target.config.n_layer - 1
        return self.target.ln_f(self.cache.taps[last][:, first : self.cache.length])


class Drafts:
    """Tokens drawn one after another, each kept with the row it was drawn from."""

    def __init__(
        self, prefix: Tensor, gamma: int, target: GPT, sampling: Sampling
    ) -> None:
        self.gamma, self.sampling, self.n, self.K = gamma, sampling, len(prefix), 0
        self.text = torch.cat([prefix, prefix.new_zeros(gamma)])
        V, weight = target.config.vocab_size, target.wte.weight
        wide = torch.promote_types(weight.dtype, torch.float32)
        self.rows = weight.new_empty(gamma, V, dtype=wide)

    def draw(self, logits: Tensor, randomness: Randomness) -> Tensor:  # [1, V] -> [1]
        """The next draft, from the processed row: `draft_probs[i]` is that very row."""
        end = self.n + self.K
        probs = logits_to_probs(logits, self.sampling, self.text[:end])
        self.text[end] = randomness.sample(probs[0])
        self.rows[self.K] = probs[0]
        self.K += 1
        return self.text[end : end + 1]

    def proposal(self) -> Proposal:
        """All that was drawn, and nothing else."""
        return Proposal(self.text[self.n : self.n + self.K], self.rows[: self.K])

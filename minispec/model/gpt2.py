"""GPT-2, written out: embeddings, blocks of attention and MLP, and a tied head.

The module tree is the checkpoint's key tree (`wte.weight`, `h.0.attn.c_attn.weight`,
...) and every matrix is stored [in, out] as GPT-2 stores it, so a checkpoint's tensors
become parameters without a copy or a transpose.

    x   = wte[ids] + wpe[positions]                       [B, T, E]
    x   = x + attn(ln_1(x));  x = x + mlp(ln_2(x))        once per block
    out = ln_f(x) @ wte.T                                 [B, T, V]

What matters for speculative decoding: with a `KVCache`, T new tokens see the S cached
ones and each other (causally), and logits come back for as many of the last positions
as are asked for. Scoring K drafted tokens is therefore one forward pass.

Paper: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners",
section 2.3. Left out: dropout (the training script adds it from outside).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minispec.checks import whole_number
from minispec.model.attention import AttentionForm, causal_mask, fused_attention
from minispec.model.kv_cache import KVCache
from minispec.model.layers import Conv1D, Embedding, LayerNorm

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu_new": partial(F.gelu, approximate="tanh"),  # GPT-2's own
    "gelu": F.gelu,
    "relu": F.relu,
}


@dataclass(frozen=True)
class GPTConfig:
    """A model's shape, under the names of a GPT-2 `config.json`."""

    n_layer: int
    n_head: int
    n_embd: int  # E
    vocab_size: int = 50257  # V
    n_positions: int = 1024  # the context: the longest sequence
    n_inner: int | None = None  # the MLP's width; None is 4 * n_embd
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    scale_attn_by_inverse_layer_idx: bool = False
    tie_word_embeddings: bool = True

    def __post_init__(self) -> None:
        sizes = ["n_layer", "n_head", "n_embd", "vocab_size", "n_positions"]
        sizes += ["n_inner"] * (self.n_inner is not None)
        for name in sizes:
            number = whole_number(name, getattr(self, name), least=1)
            object.__setattr__(self, name, number)
        if self.n_embd % self.n_head:
            raise ValueError(
                f"n_embd must be a multiple of n_head, got {self.n_embd} and "
                f"{self.n_head}"
            )
        if self.activation_function not in ACTIVATIONS:
            raise ValueError(
                f"activation_function must be one of {', '.join(ACTIVATIONS)}, "
                f"got {self.activation_function!r}"
            )
        if not 0 <= self.layer_norm_epsilon < 1:  # NaN is in no range
            raise ValueError(
                "layer_norm_epsilon must be from 0 to below 1, got "
                f"{self.layer_norm_epsilon}"
            )


class Attention(nn.Module):
    """Causal multi-head self-attention over the cached past and the new tokens."""

    def __init__(self, config: GPTConfig, layer: int, attend: AttentionForm) -> None:
        super().__init__()
        self.c_attn = Conv1D(config.n_embd, 3 * config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)
        self.layer, self.n_head, self.attend = layer, config.n_head, attend
        self.scale = (config.n_embd // config.n_head) ** -0.5
        if config.scale_attn_by_inverse_layer_idx:
            self.scale /= layer + 1

    def forward(
        self, x: Tensor, cache: KVCache | None, mask: Tensor | None
    ) -> Tensor:  # [B, T, E] -> [B, T, E]
        B, T, _ = x.shape
        heads = self.c_attn(x).view(B, T, 3, self.n_head, -1)
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # each [B, H, T, D]
        if cache is not None:
            key, value = cache.append(self.layer, key, value)  # now [B, H, S + T, D]
        mixed = self.attend(query, key, value, mask, self.scale)
        return self.c_proj(mixed.transpose(1, 2).reshape(B, T, -1))


class MLP(nn.Module):
    """Two matrices, the activation between: E -> n_inner -> E, token by token."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        n_inner = config.n_inner or 4 * config.n_embd
        self.c_fc = Conv1D(config.n_embd, n_inner)
        self.c_proj = Conv1D(n_inner, config.n_embd)
        self.activation = ACTIVATIONS[config.activation_function]

    def forward(self, x: Tensor) -> Tensor:  # [B, T, E] -> [B, T, E]
        return self.c_proj(self.activation(self.c_fc(x)))


class Block(nn.Module):
    """Attention, then MLP, each reading a normalised stream and adding to it."""

    def __init__(self, config: GPTConfig, layer: int, attend: AttentionForm) -> None:
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.attn = Attention(config, layer, attend)
        self.ln_2 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.mlp = MLP(config)

    def forward(
        self, x: Tensor, cache: KVCache | None, mask: Tensor | None
    ) -> Tensor:  # [B, T, E] -> [B, T, E]
        x = x + self.attn(self.ln_1(x), cache, mask)
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """The model. `GPT(config)` has no values yet: load them or call `initialize`."""

    def __init__(
        self, config: GPTConfig, attend: AttentionForm = fused_attention
    ) -> None:
        super().__init__()
        self.config = config
        self.wte = Embedding(config.vocab_size, config.n_embd)
        self.wpe = Embedding(config.n_positions, config.n_embd)
        self.h = nn.ModuleList(
            Block(config, layer, attend) for layer in range(config.n_layer)
        )
        self.ln_f = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        if not config.tie_word_embeddings:
            self.lm_head = Embedding(config.vocab_size, config.n_embd)

    def forward(
        self,
        ids: Tensor,
        cache: KVCache | None = None,
        last: int | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Logits after the `last` of the T new tokens, by default after each.

        [B, T] -> [B, last, V]. With a cache, `ids` continue the positions it holds, and
        it holds them too afterwards. ValueError for a `last` that is not in 1..T; all
        else as in `trunk`.
        """
        T = ids.shape[-1]
        if last is not None and not 1 <= last <= T:  # [-0:] would be all of them
            raise ValueError(f"`last` must be from 1 to the {T} tokens fed, got {last}")
        hidden = self.trunk(ids, cache, positions, mask)
        return self.head(hidden if last is None else hidden[:, -last:])

    def trunk(
        self,
        ids: Tensor,
        cache: KVCache | None = None,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Everything but the head: [B, T] -> hidden states after `ln_f`, [B, T, E].

        `positions` ([T] or [B, T]) default to those after the cache, and `mask`
        ([T, S + T] or [B, 1, T, S + T], added to the scores) to the causal one. Each
        row of a mask must leave something to look at: only -inf has no softmax. Raises
        ValueError where the context would overflow and for other shapes or types,
        IndexError for positions that are not there.
        """
        S = 0 if cache is None else cache.length
        check_shapes(ids, S, positions, mask, self.wte.weight.dtype)
        T = ids.shape[1]
        x = self.wte(ids) + self._positions(S, T, positions)
        if mask is None and S > 0:
            mask = causal_mask(T, S + T, like=x)  # once for all layers
        for layer, block in enumerate(self.h):
            x = block(x, cache, mask)
            if cache is not None:
                cache.record(layer, x)
        if cache is not None:
            cache.advance(T)
        return self.ln_f(x)

    def _positions(self, S: int, T: int, positions: Tensor | None) -> Tensor:
        """The position vectors of T new tokens after S cached ones, [T, E]."""
        if positions is not None:
            return self.wpe(positions)
        if S + T > self.config.n_positions:
            raise ValueError(
                f"{S + T} tokens do not fit the context of {self.config.n_positions} "
                "positions: shorten the prompt or ask for fewer tokens"
            )
        return self.wpe.weight[S : S + T]

    def head(self, hidden: Tensor) -> Tensor:  # [B, T, E] -> [B, T, V]
        """Logits: how well each hidden state matches each token's vector."""
        tied = self.config.tie_word_embeddings
        return (self.wte if tied else self.lm_head).scores(hidden)

    def new_cache(self, capacity: int | None = None, batch: int = 1) -> KVCache:
        """An empty cache for this model, by default as long as its context."""
        config, weight = self.config, self.wte.weight
        return KVCache(
            config.n_layer,
            cast(Block, self.h[0]).attn.n_head,  # of a split model, this rank's
            config.n_embd // config.n_head,
            config.n_positions if capacity is None else capacity,
            batch,
            weight.dtype,
            weight.device,
        )

    @property
    def n_parameters(self) -> int:
        """How many numbers the model has learned; a tied head counts once."""
        return sum(parameter.numel() for parameter in self.parameters())

    @torch.no_grad()
    def initialize(self, generator: torch.Generator, std: float = 0.02) -> GPT:
        """Fresh random weights as in GPT-2: normal, residual outputs scaled down."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif ".ln_" in name or name.startswith("ln_f"):
                parameter.fill_(1.0)
            else:
                is_residual = name.endswith("c_proj.weight")
                shrink = (2 * self.config.n_layer) ** -0.5 if is_residual else 1.0
                parameter.normal_(0.0, std * shrink, generator=generator)
        return self


def check_shapes(
    ids: Tensor,
    S: int,
    positions: Tensor | None,
    mask: Tensor | None,
    dtype: torch.dtype,
) -> None:
    """ValueError for what is not as `GPT.trunk` says: it might broadcast silently."""
    if ids.ndim != 2 or ids.numel() == 0:
        raise ValueError(
            f"ids must be [B, T], at least one, got {list(ids.shape)}: feed a model "
            "what its cache has not seen"
        )
    B, T = ids.shape
    if positions is not None and positions.shape not in ((T,), (B, T)):
        raise ValueError(
            f"positions must be [T] or [B, T] = {[B, T]}, got {list(positions.shape)}"
        )
    if mask is None:
        return
    if mask.shape not in ((T, S + T), (B, 1, T, S + T)):
        raise ValueError(
            f"a mask must be [T, S + T] or [B, 1, T, S + T] = {[B, 1, T, S + T]}, "
            f"got {list(mask.shape)}"
        )
    if mask.dtype != dtype:  # a fused kernel would read its bytes as another type's
        raise ValueError(
            f"a mask is added to the scores (0 or -inf): it must be {dtype} as the "
            f"model is, got {mask.dtype}"
        )

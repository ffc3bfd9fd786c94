"""GPT-2, written out: embeddings, blocks of attention and MLP, and a tied head.

The module tree is the checkpoint's key tree (`wte.weight`, `h.0.attn.c_attn.weight`,
...) and every matrix is stored [in, out] as GPT-2 stores it, so a checkpoint's tensors
become parameters without a copy or a transpose.

    x   = wte[ids] + wpe[positions]                       [B, T, E]
    x   = x + attn(ln_1(x));  x = x + mlp(ln_2(x))        once per block
    out = ln_f(x) @ wte.T                                 [B, T, V]

What matters for speculative decoding: with a `KVCache`, T new tokens see the S cached
ones and each other (causally), and the logits of ALL T positions come back. Scoring
K drafted tokens is therefore one forward pass.

Paper: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners",
section 2.3. Left out: dropout (the training script adds it from outside).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minispec.kv_cache import KVCache

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
        for name in ("n_layer", "n_head", "n_embd", "vocab_size", "n_positions"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} must be at least 1, got {getattr(self, name)}"
                )
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


# An attention form: queries [B, H, T, D], keys and values [B, H, S, D], the mask
# [T, S] (added to the scores; None when nothing is hidden), scale -> [B, H, T, D]
AttentionForm = Callable[[Tensor, Tensor, Tensor, "Tensor | None", float], Tensor]


def open_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:  # [B, H, T, D], 2 x [B, H, S, D], [T, S] -> [B, H, T, D]
    """softmax(query @ key.T * scale + mask) @ value, in the open."""
    scores = query @ key.transpose(-2, -1) * scale
    if mask is not None:
        scores = scores + mask
    return scores.softmax(dim=-1) @ value


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float
) -> Tensor:  # [B, H, T, D], 2 x [B, H, S, D], [T, S] -> [B, H, T, D]
    """The same function in one fused kernel, without storing the scores."""
    if query.shape[-2] == key.shape[-2]:  # no past: the kernel knows this mask itself
        return F.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scale
        )
    return F.scaled_dot_product_attention(query, key, value, mask, scale=scale)


def causal_mask(n_new: int, n_all: int, like: Tensor) -> Tensor | None:  # -> [T, S]
    """0 where new token i may look (everything up to itself), -inf where it may not.

    The new tokens are the last `n_new` of `n_all`, so row i sees the first
    n_all - n_new + i + 1 positions: the diagonal is anchored bottom right.
    """
    if n_new == 1:
        return None
    hidden = torch.full((n_new, n_all), -torch.inf, dtype=like.dtype)
    return hidden.triu(n_all - n_new + 1).to(like.device)


class Conv1D(nn.Module):
    """x @ weight + bias with weight [in, out]; GPT-2's name for it, no convolution."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        self.bias = nn.Parameter(torch.empty(n_out))

    def forward(self, x: Tensor) -> Tensor:  # [B, T, in] -> [B, T, out]
        B, T, _ = x.shape
        return torch.addmm(self.bias, x.view(B * T, -1), self.weight).view(B, T, -1)


class LayerNorm(nn.Module):
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the last axis."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class Embedding(nn.Module):
    """A table of vectors, looked up by id."""

    def __init__(self, n_rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_rows, width))

    def forward(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.weight)


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

    def forward(self, x: Tensor, cache: KVCache | None, mask: Tensor | None) -> Tensor:
        B, T, E = x.shape
        heads = self.c_attn(x).view(B, T, 3, self.n_head, -1)
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # each [B, H, T, D]
        if cache is not None:
            key, value = cache.append(self.layer, key, value)  # now [B, H, S + T, D]
        mixed = self.attend(query, key, value, mask, self.scale)
        return self.c_proj(mixed.transpose(1, 2).reshape(B, T, E))


class MLP(nn.Module):
    """Two matrices with a smooth step between: E -> n_inner -> E, token by token."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        n_inner = config.n_inner or 4 * config.n_embd
        self.c_fc = Conv1D(config.n_embd, n_inner)
        self.c_proj = Conv1D(n_inner, config.n_embd)
        self.activation = ACTIVATIONS[config.activation_function]

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(self.activation(self.c_fc(x)))


class Block(nn.Module):
    """Attention, then MLP, each reading a normalised stream and adding to it."""

    def __init__(self, config: GPTConfig, layer: int, attend: AttentionForm) -> None:
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.attn = Attention(config, layer, attend)
        self.ln_2 = LayerNorm(config.n_embd, config.layer_norm_epsilon)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, cache: KVCache | None, mask: Tensor | None) -> Tensor:
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

    def forward(self, ids: Tensor, cache: KVCache | None = None) -> Tensor:
        """Logits after every one of the T new tokens: [B, T] -> [B, T, V].

        With a cache, `ids` continue the positions it holds, and it holds them too
        afterwards. Raises ValueError where the context would overflow.
        """
        return self.head(self.trunk(ids, cache))

    def trunk(self, ids: Tensor, cache: KVCache | None = None) -> Tensor:
        """Everything but the head: [B, T] -> hidden states after `ln_f`, [B, T, E]."""
        T, S = ids.shape[1], 0 if cache is None else cache.length
        if S + T > self.config.n_positions:
            raise ValueError(
                f"{S + T} tokens do not fit the context of {self.config.n_positions} "
                "positions: shorten the prompt or ask for fewer tokens"
            )
        positions = self.wpe.weight[S : S + T]
        x = self.wte(ids) + positions
        mask = causal_mask(T, S + T, x)
        for block in self.h:
            x = block(x, cache, mask)
        if cache is not None:
            cache.advance(T)
        return self.ln_f(x)

    def head(self, hidden: Tensor) -> Tensor:  # [B, T, E] -> [B, T, V]
        """Logits: how well each hidden state matches each token's vector."""
        tied = self.config.tie_word_embeddings
        return F.linear(hidden, (self.wte if tied else self.lm_head).weight)

    def new_cache(self, capacity: int | None = None, batch: int = 1) -> KVCache:
        """An empty cache for this model, by default as long as its context."""
        config, weight = self.config, self.wte.weight
        return KVCache(
            config.n_layer,
            config.n_head,
            config.n_embd // config.n_head,
            config.n_positions if capacity is None else capacity,
            batch,
            weight.dtype,
            weight.device,
        )

    @torch.no_grad()
    def initialize(self, generator: torch.Generator, std: float = 0.02) -> "GPT":
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

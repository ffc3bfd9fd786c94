"""The three layers that hold GPT-2's weights, stored as GPT-2 stores them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Conv1D(nn.Module):
    """x @ weight + bias with weight [in, out]; GPT-2's name for it, no convolution."""

    def __init__(self, n_in: int, n_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        self.bias = nn.Parameter(torch.empty(n_out))

    def forward(self, x: Tensor) -> Tensor:  # [B, T, in] -> [B, T, out]
        return x @ self.weight + self.bias


class LayerNorm(nn.Module):
    """(x - mean) / sqrt(variance + eps) * weight + bias, over the last axis."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:  # [B, T, E] -> [B, T, E]
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


class Embedding(nn.Module):
    """A table of vectors, looked up by id."""

    def __init__(self, n_rows: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_rows, width))

    def forward(self, ids: Tensor) -> Tensor:  # [B, T] -> [B, T, E]
        return F.embedding(ids, self.weight)

    def scores(self, hidden: Tensor) -> Tensor:  # [B, T, E] -> [B, T, V]
        """How well each hidden state matches each row: the embedding as a head."""
        return F.linear(hidden, self.weight)

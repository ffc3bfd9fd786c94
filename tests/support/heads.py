"""Tiny heads of random weights, in float64, for tiny targets."""

from __future__ import annotations

from importlib import import_module

import torch

from minispec.drafters.heads import Head
from minispec.files.head import HOMES
from minispec.model.gpt2 import GPT

SIZES = {
    "eagle": {"width": 6, "n_head": 2},
    "eagle3": {"width": 6, "n_head": 2},
    "medusa": {"n_heads": 3},
    "mtp": {"n_modules": 3, "n_head": 2, "n_inner": 5},
    "independent": {"n_modules": 3, "n_head": 2, "n_inner": 5},
}


@torch.no_grad()
def tiny_head(kind: str, target: GPT, seed: int = 0) -> Head:
    """Weights large enough for every part to matter, norms and biases perturbed too."""
    module, name = HOMES[kind]
    make = getattr(import_module(f"minispec.drafters.{module}"), name)
    head = make(target.config, **SIZES[kind]).to(target.wte.weight.dtype)
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in head.named_parameters():
        is_norm = parameter.ndim == 1 and name.endswith("weight")
        parameter.normal_(float(is_norm), 0.5, generator=generator)
    return head.eval().requires_grad_(False)

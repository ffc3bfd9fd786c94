"""A training loop that can be stopped and started again, for `train_pair.py` and
`train_heads.py`.

Every random choice of step n comes from (seed, n), so a run that was interrupted and
resumed sees the batches and the dropout that an uninterrupted one would have seen.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from minispec.files.whole import replacing
from minispec.model.gpt2 import MLP, Attention
from minispec.model.layers import Embedding


Kept = TypeVar("Kept")


def kept(
    path: Path, read: Callable[[Path], Kept], make: Callable[[Path], object]
) -> Kept:
    """What `read` finds at `path`, which `make` writes first where nothing is.

    Raises ValueError for a file that `read` cannot use: a damaged one, or one of
    another job.
    """
    if not path.exists():
        with replacing(path) as part:
            make(part)
    try:
        return read(path)
    except Exception as error:  # torch, numpy and tiktoken each raise their own
        said = " ".join(str(error).split())[:100] or type(error).__name__
        raise ValueError(
            f"cannot use {path} ({said}): delete it and run the same command again"
        ) from error


@dataclass(frozen=True)
class Plan:
    """How long and how fast: AdamW, linear warm-up, cosine decay to a tenth."""

    n_steps: int
    peak_rate: float
    warmup: int = 100
    weight_decay: float = 0.1
    dropout: float = 0.0
    seed: int = 1


def learning_rate(plan: Plan, step: int) -> float:
    """Linear from 0 to the peak, then a cosine down to a tenth of it."""
    if step < plan.warmup:
        return plan.peak_rate * (step + 1) / plan.warmup
    done = (step - plan.warmup) / max(1, plan.n_steps - plan.warmup)
    return plan.peak_rate * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def random_windows(
    tokens: np.ndarray, batch: int, length: int, seed: int, step: int
) -> Tensor:  # [N] -> [batch, length]
    """Windows at random offsets, decided by (seed, step) alone."""
    rng = np.random.default_rng((seed, step))
    offsets = rng.integers(0, len(tokens) - length + 1, batch)
    windows = np.stack([tokens[offset : offset + length] for offset in offsets])
    return torch.from_numpy(windows.astype(np.int64))


def add_dropout(model: nn.Module, rate: float) -> None:
    """Drop parts of the embeddings and of what each block adds, in training mode.

    None inside attention: it would switch off the fused kernel, which is slow on a CPU.
    """

    def drop(module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
        return F.dropout(output, rate, module.training)

    adders = [m for m in model.modules() if isinstance(m, (Embedding, Attention, MLP))]
    for module in adders:
        module.register_forward_hook(drop)


def optimizer_for(model: nn.Module, plan: Plan) -> torch.optim.AdamW:
    """AdamW; matrices decay, biases and norms do not."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [
        {"params": matrices, "weight_decay": plan.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)


def train(
    model: nn.Module,
    loss_of: Callable[[int], Tensor],
    plan: Plan,
    path: Path,
    say: Callable[[str], None],
    validate: Callable[[], str] = lambda: "",
) -> None:
    """Run `plan` to its end, resuming from `path` if it exists and saving there.

    `loss_of(step)` is one batch's loss. Saved every 100 steps; `say` gets a progress
    line every 20 steps. Raises ValueError for a file that cannot be resumed from.
    """
    add_dropout(model, plan.dropout)
    optimizer = optimizer_for(model, plan)

    def save(part: Path, done: int = 0) -> None:
        states = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**states, "done": done}, part)

    def resume(path: Path) -> int:
        state = torch.load(path, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        return int(state["done"])

    first = kept(path, resume, save)
    if first:
        say(f"resuming {path.name} after step {first}")
    recent: list[float] = []
    started, step = time.monotonic(), first
    try:
        for step in range(first, plan.n_steps):
            recent.append(train_step(model, optimizer, loss_of, plan, step))
            done, is_last = step + 1, step + 1 == plan.n_steps
            if done % 20 == 0 or is_last:
                pace = (time.monotonic() - started) / (done - first)
                left = pace * (plan.n_steps - done) / 60
                loss = f"{np.mean(recent):.3f} nats/token"
                at = f"{done}/{plan.n_steps}"
                say(f"  step {at}  loss {loss}  {pace:.2f} s/step  {left:.0f} min left")
                recent.clear()
            if done % 100 == 0 or is_last:
                with replacing(path) as part:
                    save(part, done)
            if done % 500 == 0 or is_last:
                say(f"  step {done}: {validate()}")
    except KeyboardInterrupt:
        # The step under way may be half applied: go back to the last saved one.
        say(f"stopped in step {step}; run the same command again to go on from {path}")
        raise
    model.eval()


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_of: Callable[[int], Tensor],
    plan: Plan,
    step: int,
) -> float:
    """One step of the plan; returns its loss in nats per token."""
    torch.manual_seed(plan.seed * 1_000_003 + step)  # for dropout
    model.train()
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(plan, step)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_of(step)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()

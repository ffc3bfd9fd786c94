"""A training loop that can be stopped and started again, for `train_pair.py`.

Every random choice of step n comes from (seed, n), so a run that was interrupted and
resumed sees the batches and the dropout that an uninterrupted one would have seen.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from ending import written_whole
from torch import Tensor

from minispec.gpt2 import GPT, MLP, Attention
from minispec.layers import Embedding


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
    offsets = np.random.default_rng((seed, step)).integers(
        0, len(tokens) - length + 1, batch
    )
    windows = np.stack([tokens[offset : offset + length] for offset in offsets])
    return torch.from_numpy(windows.astype(np.int64))


def add_dropout(model: GPT, rate: float) -> None:
    """Drop parts of the embeddings and of what each block adds, in training mode.

    None inside attention: it would switch off the fused kernel, which is slow on a CPU.
    """

    def drop(module: torch.nn.Module, _inputs: object, output: Tensor) -> Tensor:
        return F.dropout(output, rate, module.training)

    adders = [m for m in model.modules() if isinstance(m, (Embedding, Attention, MLP))]
    for module in adders:
        module.register_forward_hook(drop)


def optimizer_for(model: GPT, plan: Plan) -> torch.optim.AdamW:
    """AdamW; matrices decay, biases and norms do not."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [
        {"params": matrices, "weight_decay": plan.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)


def save_atomically(state: object, path: Path) -> None:
    """torch.save that leaves either the old file or the new one, never half of one."""
    with written_whole(path) as part:
        torch.save(state, part)


def train(
    model: GPT,
    loss_of: Callable[[int], Tensor],
    plan: Plan,
    path: Path,
    say: Callable[[str], None],
    validate: Callable[[], str] = lambda: "",
) -> None:
    """Run `plan` to its end, resuming from `path` if it exists and saving there.

    `loss_of(step)` is one batch's loss. Saved every 100 steps, and on Ctrl-C, which is
    then passed on; `say` gets a progress line every 20 steps.
    """
    add_dropout(model, plan.dropout)
    optimizer = optimizer_for(model, plan)
    first = resume(model, optimizer, path, say)
    recent: list[float] = []
    started, step = time.monotonic(), first
    try:
        for step in range(first, plan.n_steps):
            recent.append(train_step(model, optimizer, loss_of, plan, step))
            done = step + 1
            if done % 20 == 0 or done == plan.n_steps:
                say(progress(done, first, plan, started, recent))
                recent.clear()
            if done % 100 == 0 or done == plan.n_steps:
                save_atomically(snapshot(model, optimizer, done), path)
            if done % 500 == 0 or done == plan.n_steps:
                say(f"  step {done}: {validate()}")
    except KeyboardInterrupt:
        # The step under way may be half applied: go back to the last saved one.
        say(f"stopped in step {step}; run the same command again to go on from {path}")
        raise
    model.eval()


def train_step(
    model: GPT,
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


def snapshot(model: GPT, optimizer: torch.optim.Optimizer, done: int) -> dict:
    """All that a later `resume` needs."""
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "done": done,
    }


def resume(
    model: GPT,
    optimizer: torch.optim.Optimizer,
    path: Path,
    say: Callable[[str], None],
) -> int:
    """Load the snapshot at `path` if there is one; returns the steps already done."""
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    say(f"resuming {path.name} after step {state['done']}")
    return state["done"]


def progress(
    done: int, first: int, plan: Plan, started: float, recent: list[float]
) -> str:
    """One line: step, mean loss, seconds per step, minutes left."""
    pace = (time.monotonic() - started) / (done - first)
    left = pace * (plan.n_steps - done) / 60
    loss = sum(recent) / len(recent)
    return (
        f"  step {done}/{plan.n_steps}  loss {loss:.3f} nats/token"
        f"  {pace:.2f} s/step  {left:.0f} min left"
    )

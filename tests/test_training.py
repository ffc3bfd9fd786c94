"""The scripts that made the shipped pair: resumed runs, distillation, figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from minispec import autoregressive
from minispec.gpt2 import GPT, GPTConfig
from minispec.randomness import Seeded
from minispec.sampling import Sampling

from script_loader import load_script

training = load_script("training")
distillation = load_script("distillation")
pair_figures = load_script("pair_figures")

CONFIG = GPTConfig(1, 2, 8, vocab_size=11, n_positions=16)
PLAN = training.Plan(n_steps=230, peak_rate=1e-2, warmup=10, dropout=0.2)


def fresh(seed: int = 0) -> GPT:
    return GPT(CONFIG).initialize(torch.Generator().manual_seed(seed), std=0.3)


def silent(message: str) -> None:
    """Nobody listens."""


def loss_for(model: GPT, stop_at: int | None = None) -> Callable[[int], Tensor]:
    """A next-token loss; Ctrl-C is pressed in step `stop_at`."""
    tokens = np.arange(300, dtype=np.uint16) * 7 % 11

    def loss_of(step: int) -> Tensor:
        if step == stop_at:
            raise KeyboardInterrupt
        ids = training.random_windows(tokens, 2, 9, PLAN.seed, step)
        logits = model(ids[:, :-1]).float().flatten(0, 1)
        return torch.nn.functional.cross_entropy(logits, ids[:, 1:].flatten())

    return loss_of


def test_an_interrupted_run_ends_as_an_uninterrupted_one(tmp_path: Path) -> None:
    whole, first, second = fresh(), fresh(), fresh(seed=9)
    training.train(whole, loss_for(whole), PLAN, tmp_path / "whole.pt", silent)
    path = tmp_path / "parts.pt"
    with pytest.raises(KeyboardInterrupt):
        training.train(first, loss_for(first, stop_at=150), PLAN, path, silent)
    training.train(second, loss_for(second), PLAN, path, silent)
    for ours, theirs in zip(second.parameters(), whole.parameters()):
        assert torch.equal(ours, theirs)


def test_the_rate_rises_to_its_peak_and_falls_to_a_tenth() -> None:
    rates = [training.learning_rate(PLAN, step) for step in range(PLAN.n_steps + 1)]
    assert max(rates) == rates[PLAN.warmup] == pytest.approx(PLAN.peak_rate)
    assert rates[: PLAN.warmup] == sorted(rates[: PLAN.warmup])
    assert rates[PLAN.warmup :] == sorted(rates[PLAN.warmup :], reverse=True)
    assert rates[-1] == pytest.approx(PLAN.peak_rate / 10)


def test_imitation_costs_nothing_for_the_model_itself() -> None:
    model, other = fresh(), fresh(seed=1)
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    with torch.no_grad():
        assert float(distillation.imitation_loss(model, ids, model(ids))) < 1e-6
        assert float(distillation.imitation_loss(other, ids, model(ids))) > 1e-2


def test_greedy_texts_are_what_the_model_decodes_alone() -> None:
    model, greedy = fresh().double(), Sampling(temperature=0)
    prompts = torch.tensor([[1, 2], [3, 4], [10, 0]])
    texts = distillation.write_texts(model, prompts, 16, 0.0, torch.Generator())
    for prompt, text in zip(prompts, texts):
        alone = autoregressive.generate(model, prompt, 14, Seeded(0), greedy)
        assert text.tolist() == [*prompt.tolist(), *alone.tokens]


def test_lessons_hold_the_targets_logits(tmp_path: Path) -> None:
    model = fresh()
    ids = np.arange(60).reshape(10, 6) % 11
    lessons = distillation.make_lessons(model, ids, tmp_path / "logits.npy", silent)
    windows, logits = lessons.batch(np.array([3, 9]))
    with torch.no_grad():
        torch.testing.assert_close(logits, model(windows), atol=0.1, rtol=0.05)


def test_a_model_overlaps_itself_wholly() -> None:
    model = fresh()
    windows = torch.arange(51).reshape(3, 17) % 11
    figures = pair_figures.reading(model, model, windows)
    assert figures["overlap"] == figures["greedy agreement"] == 1
    assert figures["target loss"] == figures["draft loss"] > 0

"""The scripts that made the shipped pair: resumed runs, what is rejected, figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from support.script_loader import load_script

from minispec.core.autoregressive import generate_alone
from minispec.core.randomness import Seeded
from minispec.core.sampling import Sampling
from minispec.core.text import Request
from minispec.model.gpt2 import GPT, GPTConfig

training = load_script("training")
distillation = load_script("distillation")
train_pair = load_script("train_pair")

CONFIG = GPTConfig(1, 2, 8, vocab_size=11, n_positions=16)
SHORT = training.Plan(n_steps=2, peak_rate=1e-2, warmup=1)
PLAN = training.Plan(n_steps=120, peak_rate=1e-2, warmup=10, dropout=0.2)


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
        training.train(first, loss_for(first, stop_at=110), PLAN, path, silent)
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
    model = fresh().double()
    prompts = torch.tensor([[1, 2], [3, 4], [10, 0]])
    texts = distillation.write_texts(model, prompts, 16, temperature=0.0, seed=0)
    for prompt, text in zip(prompts, texts):
        request = Request(prompt, 14, Sampling(temperature=0))
        alone = generate_alone(model, request, Seeded(0))
        assert text.tolist() == [*prompt.tolist(), *alone.tokens]


def test_lessons_hold_the_targets_logits(tmp_path: Path) -> None:
    model = fresh()
    ids = np.arange(60).reshape(10, 6) % 11
    lessons = distillation.make_lessons(model, ids, tmp_path / "logits.npy", silent)
    windows, logits = lessons.batch(np.array([3, 9]))
    with torch.no_grad():
        torch.testing.assert_close(logits, model(windows), atol=0.1, rtol=0.05)


def test_a_model_overlaps_itself_wholly(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fresh()
    monkeypatch.setattr(distillation, "PROMPT_LENGTH", 4)
    figures = distillation.measure_pair(model, model, np.arange(170) % 11)
    assert figures["decoding at temperature 1"]["acceptance rate"] == 1
    reading = figures["reading held-out plays"]
    assert reading["overlap"] == reading["greedy agreement"] == 1
    assert reading["target loss"] == reading["draft loss"] > 0


@pytest.mark.parametrize("damage", [b"", b"no archive", None])
def test_a_damaged_file_of_the_work_is_named(
    tmp_path: Path, damage: bytes | None
) -> None:
    """Empty, of another kind, or cut off; and so is every other file that is kept."""
    path = tmp_path / "target.pt"
    training.train(fresh(), loss_for(fresh()), SHORT, path, silent)
    path.write_bytes(path.read_bytes()[:-99] if damage is None else damage)
    with pytest.raises(ValueError, match="cannot use .*target.pt .*: delete it"):
        training.train(fresh(), loss_for(fresh()), SHORT, path, silent)


def corpus_of(folder: Path, train: str = "to be, or " * 999, held: str = "") -> Path:
    """A corpus of a few words over and over."""
    (folder / "held_out").mkdir(parents=True)
    (folder / "train.txt").write_text(train, encoding="utf-8")
    (folder / "held_out" / "macbeth.txt").write_text(held or train, encoding="utf-8")
    return folder


def begin(corpus: Path, *more: str) -> train_pair.Job:
    """What the script does before the first hour."""
    work, out = corpus.parent / "work", corpus.parent / "out"
    return train_pair.job_of(
        [str(corpus), "--work", str(work), "--out", str(out), *more]
    )


def test_what_would_show_after_hours_is_rejected_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_pair, "VOCAB_SIZE", 260)
    good = corpus_of(tmp_path / "good")
    begin(good)
    begin(good)
    with pytest.raises(ValueError, match="begun with another corpus"):
        begin(corpus_of(tmp_path / "other", train="to be or not to be " * 999))
    with pytest.raises(ValueError, match="macbeth.txt is empty"):
        begin(corpus_of(tmp_path / "empty", held="\n"))
    with pytest.raises(ValueError, match="more than 512 tokens"):
        begin(corpus_of(tmp_path / "short", held="a few words"), "--hurry", "3")
    with pytest.raises(ValueError, match="run prepare_corpus.py"):
        begin(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="leaves no step"):
        begin(good, "--hurry", "9999")
    (tmp_path / "work" / "tokenizer.tiktoken").write_bytes(b"damaged")
    with pytest.raises(ValueError, match="cannot use .*tokenizer.tiktoken"):
        begin(good)
    (tmp_path / "a_file").touch()
    with pytest.raises(OSError):
        begin(good, "--out", str(tmp_path / "a_file"))


def test_a_vocabulary_half_written_is_learned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the write must not leave a file that the next run takes for whole."""

    def half(ranks: object, path: Path) -> None:
        path.write_bytes(b"AA== 0\n")
        raise KeyboardInterrupt

    monkeypatch.setattr(train_pair, "VOCAB_SIZE", 258)
    monkeypatch.setattr(train_pair, "write_tiktoken", half)
    job = train_pair.Job(corpus_of(tmp_path / "corpus"), tmp_path, tmp_path, 1)
    with pytest.raises(KeyboardInterrupt):
        job.tokenizer
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_a_trial_in_a_hurry_is_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the real job would go on from its few steps, and learn from its few texts."""
    monkeypatch.setattr(train_pair, "VOCAB_SIZE", 260)
    corpus = corpus_of(tmp_path / "corpus")
    works = {begin(corpus, "--hurry", hurry).work for hurry in ("1", "20", "30")}
    assert tmp_path / "work" in works and len(works) == 3

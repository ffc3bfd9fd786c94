"""Training of heads: what a batch holds, what the losses compare, resumed runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from support.checks import agree
from support.decoding import tiny
from support.heads import SIZES, tiny_head
from support.script_loader import load_script
from support.tiny_pairs import random_folder

from minispec.drafters.eagle import Eagle, Eagle3
from minispec.files.head import HOMES, load_head
from minispec.files.pair import load_model
from minispec.model.gpt2 import GPT

train_heads = load_script("train_heads")
recipes = load_script("head_recipes")
TARGET = tiny(V=5, n_layer=3)
IDS = torch.tensor([[0, 1, 4, 2, 2, 3, 1, 0], [3, 3, 0, 1, 2, 4, 4, 1]])


@torch.no_grad()
def batch_of(target: GPT = TARGET, ids: Tensor = IDS) -> Any:
    cache = target.new_cache(ids.shape[1], len(ids))
    for layer in range(target.config.n_layer):
        cache.tap(layer)
    target(ids, cache)
    return recipes.Batch(target, ids, cache.taps)


# -------------------------------------------------------------------------- losses


def test_a_row_of_the_unrolled_training_is_the_row_of_a_draft() -> None:
    """Depth k, row j: real features up to j - k, then k guesses, as in a decode."""
    head, batch, T = tiny_head("eagle3", TARGET), batch_of(), IDS.shape[1] - 1
    assert isinstance(head, Eagle3)
    real = head.read(TARGET, batch.taps, slice(None, -1))
    embeddings = TARGET.wte(IDS[:, 1:])
    for k, (_, seen) in enumerate(recipes.unrolled(head, real, embeddings, 4)):
        for j in range(k, T):
            rows = real[:, : j - k + 1]
            for end in range(j - k + 1, j + 1):
                guess, _ = head(rows, embeddings[:, :end])
                rows = torch.cat([rows, guess[:, -1:]], dim=1)
            _, by_hand = head(rows, embeddings[:, : j + 1])
            agree(seen[:, j], by_hand[:, -1], "Not a draft's row.", depth=k, row=j)


class Oracle(Eagle):
    """Guesses rightly: the true next feature, and what it was given is on record."""

    def forward(self, features: Tensor, embeddings: Tensor, *rest: Any) -> Any:
        self.given = features, embeddings
        return self.truth, self.truth


def test_an_eagle_that_is_right_loses_the_targets_entropy_alone() -> None:
    batch = batch_of()
    head = Oracle(TARGET.config, **SIZES["eagle"])
    head.truth = batch.features[:, 1:]
    entropy = -(batch.truth * batch.truth.log()).sum(-1)[:, 1:].mean()
    agree(recipes.eagle_loss(head, batch).double(), entropy, "", tolerance=1e-6)
    features, embeddings = head.given
    agree(features, batch.features[:, :-1], "Features of positions 0 .. T - 2.")
    agree(embeddings, TARGET.wte(IDS[:, 1:]), "Tokens 1 .. T - 1: shifted by one.")


@pytest.mark.parametrize("kind, chance_at", [("medusa", 2), ("mtp", 2)])
def test_the_first_of_several_heads_guesses_the_row_after_the_next(
    kind: str, chance_at: int
) -> None:
    """A target that always counts on makes token i + 2 + k known from token i."""
    rows = []

    def recorded(truth: Tensor, logits: Tensor) -> Tensor:
        rows.append(truth)
        return logits.sum() * 0

    batch, loss = batch_of(), getattr(recipes, f"{kind}_loss")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipes, "imitation", recorded)
        loss(tiny_head(kind, TARGET), batch)
    for k, truth in enumerate(rows, start=1):
        agree(truth, batch.truth[:, k:], "Head k imitates rows i + k of the target.")


# ---------------------------------------------------------------------- whole runs


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A tiny target over bytes, a corpus of a few words, windows of 40 tokens."""
    constants = {"LENGTH": 40, "N_PLAYS": 8, "N_OWN": 4, "BATCH": 4, "PROMPT_LENGTH": 2}
    for name, value in constants.items():
        monkeypatch.setattr(train_heads, name, value)
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "train.txt").write_text("to be, or not to be: " * 40)
    target = random_folder(tmp_path / "target", seed=1)
    (tmp_path / "work").mkdir()
    return train_heads.Job(corpus, target, tmp_path / "work", 1)


PLAN = recipes.Plan(n_steps=6, peak_rate=1e-2, warmup=1)


def recipe_of(kind: str) -> Any:
    plain = recipes.RECIPES[kind]
    sizes = {**SIZES[kind], "n_head": 1} if "n_head" in SIZES[kind] else SIZES[kind]
    made = lambda config: class_of(kind)(config, **sizes)  # noqa: E731
    return replace(plain, make=made, plan=PLAN, length=20, after=None)


def class_of(kind: str) -> Any:
    module, name = HOMES[kind]
    return getattr(__import__(f"minispec.drafters.{module}", fromlist=[name]), name)


def test_work_begun_with_another_corpus_is_rejected(job: Any) -> None:
    job.check()
    job.check()
    (job.corpus / "train.txt").write_text("not to be, or to be: " * 40)
    other = train_heads.Job(job.corpus, job.target_folder, job.work, 1)
    with pytest.raises(ValueError, match="begun with another corpus or target"):
        other.check()


def test_a_batch_holds_what_the_target_made_of_its_windows(job: Any) -> None:
    """Of the plays alone, then half of own texts; the same for the same step."""
    recipe = recipe_of("eagle3")
    head = recipe.make(job.target.config)
    own = {window.tobytes() for window in every_cut(job.own_texts)}
    for step, n_own in ((0, 0), (5, 2)):
        batch = job.batch(recipe, head, step)
        assert batch.ids.shape == (4, 20) and set(batch.taps) == {0}
        assert sum(row.numpy().tobytes() in own for row in batch.ids) == n_own
        assert batch.ids.equal(job.batch(recipe, head, step).ids)
    whole = torch.from_numpy(job.windows_of_plays)
    cache = job.target.new_cache(40, len(whole))
    cache.tap(0)
    job.target.trunk(whole, cache)
    kept = torch.from_numpy(job.features("plays", 0).copy())
    assert torch.equal(kept, cache.taps[0].half())


def every_cut(windows: np.ndarray) -> np.ndarray:  # [N, T] -> [N', 20]
    cuts = np.lib.stride_tricks.sliding_window_view(windows, 20, axis=1)
    return np.ascontiguousarray(cuts.reshape(-1, 20))


@pytest.mark.parametrize("kind", ["eagle", "eagle3", "medusa", "mtp", "independent"])
def test_a_head_is_trained_written_and_loaded(
    kind: str, job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And an interrupted run, taken up again, ends with the same weights."""
    said: list[str] = []
    monkeypatch.setattr(train_heads, "say", said.append)
    head = train_heads.train_head(job, kind, recipe_of(kind))
    out = tmp_path / "out"
    train_heads.save_head(head, out, job.target)
    target = load_model(job.target_folder)[0]
    loaded = load_head(out, target)
    for name, tensor in loaded.state_dict().items():
        assert torch.equal(tensor, head.state_dict()[name].half().float()), name
    assert any("step 6/6" in line for line in said)


def test_a_recipe_may_begin_where_another_ended(
    job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_heads, "say", lambda line: None)
    first = recipe_of("eagle")
    second = replace(first, plan=replace(PLAN, n_steps=0), after="first")
    monkeypatch.setitem(train_heads.RECIPES, "first", first)
    taught_on = train_heads.train_head(job, "second", second).state_dict()
    begun = train_heads.train_head(job, "first", first).state_dict()
    assert all(taught_on[name].equal(begun[name]) for name in begun)

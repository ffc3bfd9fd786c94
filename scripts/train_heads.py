#!/usr/bin/env python3
"""Train one small head for the shipped target, from the text of prepare_corpus.py.

  1. texts by the target itself, at temperatures 0, 0.5 and 1
  2. features: the hidden states of the target, on the plays and on its own texts
  3. the head, taught to guess as the target does
  4. its folder, in float16: config.json and model.safetensors

The texts and features serve every head and are computed once. Everything under way is
kept in --work: stop with Ctrl-C whenever you like, and run the same command again to go
on. Seeds are fixed. The first stage takes minutes on 2 cores, and so does each head;
OMP_NUM_THREADS sets how many cores it uses.

  python scripts/train_heads.py eagle corpus
  python scripts/train_heads.py eagle corpus --hurry 100     try it out
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import torch
from distillation import in_windows, write_texts
from head_recipes import RECIPES, Batch, Recipe
from learn_bpe import read_text
from numpy.lib.format import open_memmap
from torch import Tensor
from train_pair import PROMPT_LENGTH, hurried, say
from training import kept, random_windows, train

from minispec.commands.ending import Parser, at_least, ended
from minispec.drafters.heads import Head
from minispec.files.head import fingerprint, save_head
from minispec.files.pair import SHIPPED, load_model
from minispec.files.whole import check_writable, replacing
from minispec.model.gpt2 import GPT

LENGTH = 512  # tokens of a window: the target's context
N_PLAYS, N_OWN = 960, 160  # windows of the plays, texts at each temperature
TEMPERATURES = (0.0, 0.5, 1.0)
BATCH = 8


@dataclass(frozen=True)
class Job:
    """Where things are. `hurry` divides every number of steps and texts."""

    corpus: Path
    target_folder: Path
    work: Path
    hurry: int

    @cached_property
    def target(self) -> GPT:
        return load_model(self.target_folder)[0].requires_grad_(False)

    @cached_property
    def plays(self) -> np.ndarray:  # [M]
        """The training text as tokens."""
        path = self.corpus / "train.txt"
        if not path.is_file():
            raise ValueError(f"{self.corpus} has no train.txt: run prepare_corpus.py")
        tokenizer = load_model(self.target_folder)[1]
        return np.array(tokenizer.encode(read_text(path)), np.uint16)

    def check(self) -> None:
        """ValueError for a work folder that was begun with other texts or weights."""
        made_of = fingerprint(self.target), self.plays.tobytes()
        digest = hashlib.sha256(repr(made_of).encode()).hexdigest()
        path = self.work / "made_of.sha256"
        if kept(path, Path.read_text, lambda part: part.write_text(digest)) != digest:
            raise ValueError(
                f"{self.work} was begun with another corpus or target: give another "
                "--work, or delete it to begin anew"
            )

    @cached_property
    def windows_of_plays(self) -> np.ndarray:
        """Windows spread evenly over the plays."""
        windows = in_windows(self.plays, LENGTH)
        spread = windows[:: max(1, len(windows) // N_PLAYS)]
        return spread[: max(BATCH, N_PLAYS // self.hurry)]

    @cached_property
    def own_texts(self) -> np.ndarray:
        """Stage 1: what the target writes after short prompts from the plays."""

        def write(part: Path) -> None:
            texts, n = [], max(1, N_OWN // self.hurry)
            for i, temperature in enumerate(TEMPERATURES):
                say(f"the target writes {n} texts at temperature {temperature}")
                prompts = random_windows(self.plays, n, PROMPT_LENGTH, 3, step=i)
                texts.append(write_texts(self.target, prompts, LENGTH, temperature, i))
            with part.open("wb") as file:
                np.save(file, torch.cat(texts).numpy())

        return kept(self.work / "own.npy", np.load, write)

    def texts(self, source: str) -> np.ndarray:  # -> [N, LENGTH]
        """The windows of a source, `plays` or `own`."""
        return self.own_texts if source == "own" else self.windows_of_plays

    def layers(self, head: Head) -> list[int]:
        """Those that the head reads, and the last one, which says what is right."""
        return sorted({*head.layers, self.target.config.n_layer - 1})

    def path(self, source: str, layer: int) -> Path:
        return self.work / f"{source}_{layer}.npy"

    @cache
    def features(self, source: str, layer: int) -> np.ndarray:  # -> [N, LENGTH, E]
        """What `layer` of the target makes of the texts of a source."""
        shape = (*self.texts(source).shape, self.target.config.n_embd)

        def read(path: Path) -> np.ndarray:
            features = np.load(path, mmap_mode="r")
            if features.shape != shape:
                raise ValueError(f"its shape is {features.shape}, expected {shape}")
            return features

        self.write_features(source, [layer])
        return kept(self.path(source, layer), read, Path.touch)

    @torch.inference_mode()
    def write_features(self, source: str, layers: Collection[int]) -> None:
        """Stage 2: run the target over a source once, for all layers not yet there."""
        missing = [one for one in layers if not self.path(source, one).exists()]
        if not missing:
            return
        ids = self.texts(source)
        shape = (*ids.shape, self.target.config.n_embd)
        with ExitStack() as stack:
            paths = [self.path(source, layer) for layer in missing]
            parts = [stack.enter_context(replacing(path)) for path in paths]
            files = [open_memmap(part, "w+", np.float16, shape) for part in parts]
            for first in range(0, len(ids), BATCH):
                if first % (20 * BATCH) == 0:
                    say(f"  the target has read {first} of {len(ids)}, {source}")
                rows = torch.from_numpy(ids[first : first + BATCH])
                cache = self.target.new_cache(LENGTH, len(rows))
                for layer in missing:
                    cache.tap(layer)
                self.target.trunk(rows, cache)
                for layer, file in zip(missing, files):
                    file[first : first + BATCH] = cache.taps[layer].half().numpy()
            for file in files:
                file.flush()

    def batch(self, recipe: Recipe, head: Head, step: int) -> Batch:
        """Of the plays at first, then half own texts; decided by (seed, step)."""
        rng = np.random.default_rng((recipe.plan.seed, step))
        first = rng.integers(0, LENGTH - recipe.length + 1)
        cut = slice(first, first + recipe.length)
        ids, taps = list[Tensor](), dict[int, list[Tensor]]()
        n_plays_alone = int(recipe.plays_alone * recipe.plan.n_steps) // self.hurry
        sources = ("plays",) if step < n_plays_alone else ("plays", "own")
        for source in sources:
            windows = self.texts(source)
            rows = np.sort(rng.integers(0, len(windows), BATCH // len(sources)))
            ids.append(torch.from_numpy(windows[rows, cut]))
            for layer in self.layers(head):
                found = torch.from_numpy(self.features(source, layer)[rows, cut])
                taps.setdefault(layer, []).append(found.float())
        whole = {layer: torch.cat(parts) for layer, parts in taps.items()}
        return Batch(self.target, torch.cat(ids), whole)


def train_head(job: Job, name: str, recipe: Recipe) -> Head:
    """Stages 1 to 3; before them, the recipe that this one comes after."""
    plan = hurried(recipe.plan, job.hurry)
    head = recipe.make(job.target.config)
    head.initialize(torch.Generator().manual_seed(plan.seed))
    if recipe.after:
        begun = train_head(job, recipe.after, RECIPES[recipe.after])
        head.load_state_dict(begun.state_dict())
    for source in ("own", "plays"):
        job.write_features(source, job.layers(head))
    n = sum(parameter.numel() for parameter in head.parameters())
    say(f"training {name}, {n:,} parameters")

    def loss_of(step: int) -> Tensor:
        return recipe.loss(head, job.batch(recipe, head, step))

    train(head, loss_of, plan, job.work / f"{name}.pt", say)
    return head.requires_grad_(False)


def main(argv: list[str] | None = None) -> int:
    """Every stage that is not yet done; 0 when all are."""
    parser = Parser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("name", choices=sorted(RECIPES), help=", ".join(RECIPES))
    add("corpus", type=Path, help="folder that prepare_corpus.py wrote")
    add("--target", type=Path, default=SHIPPED / "target", help="the target's folder")
    add("--work", type=Path, default=Path("runs/heads"), help="(%(default)s)")
    out = Path("runs/heads/shakespeare")
    add("--out", type=Path, default=out, help="(%(default)s)")
    hurry = "try the script out with an Nth of all steps and texts, in WORK/hurryN"
    add("--hurry", type=at_least(1), default=1, metavar="N", help=hurry)
    args = parser.parse_args(argv)
    work = args.work if args.hurry == 1 else args.work / f"hurry{args.hurry}"
    for folder in (work, args.out / args.name):
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder / "config.json")
    job = Job(args.corpus, args.target, work, args.hurry)
    job.check()
    head = train_head(job, args.name, RECIPES[args.name])
    save_head(head, args.out / args.name, job.target)
    say(f"{args.out / args.name} is written")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))

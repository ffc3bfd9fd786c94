#!/usr/bin/env python3
"""Make the shipped pair from the text that prepare_corpus.py made.

  1. a byte-level BPE of 1,024 tokens, learned from the training text
  2. the target, 12 layers of width 256, trained to predict the next token
  3. texts by the target itself, at temperatures from 0 to 1
  4. the draft, 1 layer of width 64, taught to imitate the target on both
  5. figures: losses on the held-out plays, overlap, agreement

Everything under way is kept in --work: stop with Ctrl-C whenever you like, and run the
same command again to go on. Seeds are fixed. On 2 cores it takes about an hour and a
half; OMP_NUM_THREADS sets how many it uses.

  python scripts/train_pair.py corpus
  python scripts/train_pair.py corpus --hurry 100     try it out, in two minutes

With --bytes it makes one model more, beside a target that is there already: a draft
that speaks bytes, 2 layers of width 128. It takes about twenty minutes.

  python scripts/train_pair.py corpus --bytes --out weights/shakespeare
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from distillation import (
    Lessons,
    imitation_loss,
    in_windows,
    make_lessons,
    measure_pair,
    write_texts,
)
from learn_bpe import learn_bpe, read_text, write_tiktoken
from torch import Tensor
from training import Plan, kept, random_windows, train

from minispec.commands.ending import Parser, at_least, ended
from minispec.files import checkpoint
from minispec.files.checkpoint.tokenizer_export import export_tokenizer
from minispec.files.tokenizer import Tokenizer
from minispec.files.whole import check_writable, replacing
from minispec.model.gpt2 import GPT, GPTConfig

VOCAB_SIZE, CONTEXT = 1024, 512
# Width 256: there one pass over 5 tokens costs a CPU hardly more than over 1, while at
# 384 it costs 1.6 times as much; and the corpus is too small to reward more parameters.
TARGET = GPTConfig(12, 4, 256, VOCAB_SIZE, CONTEXT)
DRAFT = GPTConfig(1, 1, 64, VOCAB_SIZE, CONTEXT)

BYTES = GPTConfig(2, 2, 128, 257, 1024)  # 256 bytes and EOS; a token has about three

TARGET_PLAN = Plan(n_steps=1700, peak_rate=2e-3, dropout=0.1, seed=1)
DRAFT_PLAN = Plan(n_steps=4000, peak_rate=3e-3, weight_decay=0.01, seed=2)
BYTES_PLAN = Plan(n_steps=3000, peak_rate=3e-3, weight_decay=0.01, seed=4)
BATCH = 8

TEXTS_PER_TEMPERATURE, PROMPT_LENGTH = 160, 32
TEMPERATURES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass
class Job:
    """Where things are, and what has been made so far."""

    corpus: Path
    work: Path
    out: Path
    hurry: int  # every number of steps and texts is divided by this; 1 is the real job
    only_bytes: bool = False

    @cached_property
    def files(self) -> dict[str, str]:
        """The training text, then the held-out plays. ValueError if one lacks text."""
        held_out = sorted((self.corpus / "held_out").glob("*.txt"))
        if not held_out:
            raise ValueError(f"{self.corpus} has no held_out/: run prepare_corpus.py")
        paths = [self.corpus / "train.txt", *held_out]
        texts = {str(path): read_text(path) for path in paths}
        for path, text in texts.items():
            if not text.strip():
                raise ValueError(f"{path} is empty: run prepare_corpus.py again")
        return texts

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Stage 1: the vocabulary, learned on first use."""

        def learn(path: Path) -> None:
            say(f"learning a vocabulary of {VOCAB_SIZE} tokens")
            write_tiktoken(learn_bpe([*self.files.values()][0], VOCAB_SIZE), path)

        path = self.work / "tokenizer.tiktoken"
        return kept(path, Tokenizer.from_tiktoken_file, learn)

    @cached_property
    def tokens(self) -> tuple[np.ndarray, np.ndarray]:  # [M], [N]
        """The training text, and the plays that no model is trained on."""
        encode = self.tokenizer.encode
        ids = [np.array(encode(text), np.uint16) for text in self.files.values()]
        return ids[0], np.concatenate(ids[1:])

    def check(self) -> None:
        """ValueError or OSError for what would only come to light after hours."""
        if self.hurry > TARGET_PLAN.n_steps:
            raise ValueError(f"--hurry {self.hurry} leaves no step of the target")
        digest = hashlib.sha256(repr([*self.files.values()]).encode()).hexdigest()
        for folder in (self.work, self.out):
            folder.mkdir(parents=True, exist_ok=True)
            check_writable(folder / "figures.json")
        path = self.work / "corpus.sha256"
        if kept(path, Path.read_text, lambda p: p.write_text(digest)) != digest:
            raise ValueError(
                f"{self.work} was begun with another corpus than {self.corpus}: give "
                "another --work, or delete it to begin anew"
            )
        if min(map(len, self.tokens)) <= CONTEXT:
            raise ValueError(
                f"{self.corpus} is too short: its training text and its held-out plays "
                f"each need more than {CONTEXT} tokens"
            )


def say(message: str) -> None:
    """One line of progress, at once, with the time of day."""
    print(time.strftime("%H:%M:%S"), message, flush=True)


def hurried(plan: Plan, hurry: int) -> Plan:
    """The plan with fewer steps, for trying the script out."""
    n_steps = plan.n_steps // hurry
    return replace(plan, n_steps=n_steps, warmup=min(plan.warmup, n_steps // 10))


def next_token_loss(model: GPT, ids: Tensor) -> Tensor:
    """Mean cross-entropy of every token given those before it: [B, T + 1] -> []."""
    logits = model(ids[:, :-1]).float()
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


@torch.no_grad()
def held_out_loss(model: GPT, held_out: np.ndarray, n_windows: int = 64) -> str:
    """The loss on the first windows of the held-out plays, as a line of progress."""
    model.eval()
    length = model.config.n_positions + 1
    windows = torch.from_numpy(in_windows(held_out, length)[:n_windows])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = [next_token_loss(model, ids).item() for ids in windows.split(BATCH)]
    return f"held-out loss {np.mean(losses):.3f} nats/token"


def train_target(job: Job) -> GPT:
    """Stage 2."""
    model = GPT(TARGET).initialize(torch.Generator().manual_seed(TARGET_PLAN.seed))
    plan = hurried(TARGET_PLAN, job.hurry)
    say(f"training the target, {model.n_parameters:,} parameters")

    def loss_of(step: int) -> Tensor:
        ids = random_windows(job.tokens[0], BATCH, CONTEXT + 1, plan.seed, step)
        return next_token_loss(model, ids)

    path = job.work / "target.pt"
    train(model, loss_of, plan, path, say, lambda: held_out_loss(model, job.tokens[1]))
    return model.requires_grad_(False)


def own_texts(job: Job, target: GPT) -> np.ndarray:  # -> [N, CONTEXT]
    """Stage 3: what the target writes after short prompts from the plays."""

    def write(part: Path) -> None:
        n_texts = max(1, TEXTS_PER_TEMPERATURE // job.hurry)
        texts = []
        for i, temperature in enumerate(TEMPERATURES):
            say(f"the target writes {n_texts} texts at temperature {temperature}")
            prompts = random_windows(job.tokens[0], n_texts, PROMPT_LENGTH, 3, step=i)
            texts.append(write_texts(target, prompts, CONTEXT, temperature, seed=i))
        with part.open("wb") as file:
            np.save(file, torch.cat(texts).numpy())

    return kept(job.work / "texts.npy", np.load, write)


def all_lessons(job: Job, target: GPT) -> tuple[Lessons, Lessons]:
    """What the draft learns from: the plays, and the target's own texts."""
    plays = in_windows(job.tokens[0], CONTEXT)[: None if job.hurry == 1 else 64]
    texts = own_texts(job, target)
    say("the target scores the plays and its texts")
    return (
        make_lessons(target, plays, job.work / "plays_logits.npy", say),
        make_lessons(target, texts, job.work / "texts_logits.npy", say),
    )


def train_draft(job: Job, lessons: tuple[Lessons, Lessons]) -> GPT:
    """Stage 4: the plays alone at first, then by turns with the target's own texts."""
    plan = hurried(DRAFT_PLAN, job.hurry)
    model = GPT(DRAFT).initialize(torch.Generator().manual_seed(plan.seed))
    say(f"training the draft, {model.n_parameters:,} parameters")
    plays, texts = lessons

    def loss_of(step: int) -> Tensor:
        own = step >= plan.n_steps // 2 and step % 2
        source = texts if own else plays
        rng = np.random.default_rng((plan.seed, step))
        rows = rng.integers(0, len(source.ids), BATCH)
        return imitation_loss(model, *source.batch(rows))

    path = job.work / "draft.pt"
    train(model, loss_of, plan, path, say, lambda: held_out_loss(model, job.tokens[1]))
    return model.requires_grad_(False)


def train_bytes(job: Job) -> GPT:
    """A draft of another vocabulary."""
    plan = hurried(BYTES_PLAN, job.hurry)
    model = GPT(BYTES).initialize(torch.Generator().manual_seed(plan.seed))
    say(f"training the draft that speaks bytes, {model.n_parameters:,} parameters")
    encode = Tokenizer.from_bytes().encode
    train_text, *others = (np.array(encode(t), np.uint16) for t in job.files.values())
    held_out = np.concatenate(others)

    def loss_of(step: int) -> Tensor:
        ids = random_windows(train_text, BATCH, BYTES.n_positions + 1, plan.seed, step)
        return next_token_loss(model, ids)

    path = job.work / "bytes.pt"
    train(model, loss_of, plan, path, say, lambda: held_out_loss(model, held_out))
    return model.requires_grad_(False)


def ship_bytes(job: Job) -> None:
    """Train the draft that speaks bytes, and write it beside the target."""
    model, folder = train_bytes(job), job.out / "draft-bytes"
    tokenizer = Tokenizer.from_bytes()
    checkpoint.save(model, folder, torch.float16, eos_id=tokenizer.eos_id)
    with replacing(folder / "tokenizer.tiktoken") as part:
        write_tiktoken({bytes([byte]): byte for byte in range(256)}, part)
    export_tokenizer(tokenizer, folder, BYTES.n_positions)


def ship(job: Job, models: dict[str, GPT]) -> None:
    """Write both folders in float16, and measure what was written."""
    for name, model in models.items():
        folder = job.out / name
        checkpoint.save(model, folder, torch.float16, eos_id=job.tokenizer.eos_id)
        with replacing(folder / "tokenizer.tiktoken") as part:
            part.write_bytes((job.work / "tokenizer.tiktoken").read_bytes())
        export_tokenizer(job.tokenizer, folder, CONTEXT)
    loaded = {name: checkpoint.load(job.out / name) for name in models}
    say("measuring the pair")
    figures = measure_pair(loaded["target"], loaded["draft"], job.tokens[1])
    with replacing(job.out / "figures.json") as part:
        part.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    say(json.dumps(figures, indent=2))


def job_of(argv: list[str] | None) -> Job:
    """The command line, checked."""
    parser = Parser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("corpus", type=Path, help="folder that prepare_corpus.py wrote")
    add("--work", type=Path, default=Path("runs/pair"), help="(%(default)s)")
    add("--out", type=Path, default=Path("runs/pair/shakespeare"), help="(%(default)s)")
    add("--bytes", action="store_true", help="only the draft that speaks bytes")
    hurry = "try the script out with an Nth of all steps and texts, in WORK/hurryN"
    add("--hurry", type=at_least(1), default=1, metavar="N", help=hurry)
    args = parser.parse_args(argv)
    if args.bytes:
        args.work = args.work / "bytes"
    # A trial's files must never be taken for the real job's.
    work = args.work if args.hurry == 1 else args.work / f"hurry{args.hurry}"
    job = Job(args.corpus, work, args.out, args.hurry, args.bytes)
    if job.only_bytes:
        job.tokenizer = Tokenizer.from_bytes()
    job.check()
    return job


def main(argv: list[str] | None = None) -> int:
    """Every stage that is not yet done; 0 when all are."""
    job = job_of(argv)
    if job.only_bytes:
        ship_bytes(job)
        return 0
    target = train_target(job)
    draft = train_draft(job, all_lessons(job, target))
    ship(job, {"target": target, "draft": draft})
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))

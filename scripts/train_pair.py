#!/usr/bin/env python3
"""Make the shipped pair from the corpus: vocabulary, target, draft, figures."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
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
    write_texts,
)
from ending import ended, positive, status_of, written_whole
from learn_bpe import learn_bpe, write_tiktoken
from pair_figures import measure_pair
from torch import Tensor
from training import Plan, random_windows, train

from minispec import checkpoint
from minispec.checkpoint.tokenizer_export import export_tokenizer
from minispec.gpt2 import GPT, GPTConfig
from minispec.tokenizer import Tokenizer

DESCRIPTION = """\
Train the pair that ships with minispec, from the text that prepare_corpus.py made:

  1. a byte-level BPE of 1,024 tokens, learned from the training text
  2. the target, 12 layers of width 256, trained to predict the next token
  3. texts by the target itself, at temperatures from 0 to 1
  4. the draft, 1 layer of width 64, taught to imitate the target on both
  5. figures: losses on the held-out plays, overlap, agreement

Everything under way is kept in --work: stop with Ctrl-C whenever you like, and run the
same command again to go on. Seeds are fixed. On 2 cores it takes about two hours.
"""

VOCAB_SIZE, CONTEXT = 1024, 512
# Width 256: there one pass over 5 tokens costs a CPU hardly more than over 1, while at
# 384 it costs 1.6 times as much; and the corpus is too small to reward more parameters.
TARGET = GPTConfig(12, 4, 256, VOCAB_SIZE, CONTEXT)

TARGET_PLAN = Plan(n_steps=1700, peak_rate=2e-3, dropout=0.1, seed=1)
DRAFT_PLAN = Plan(n_steps=4000, peak_rate=3e-3, weight_decay=0.01, seed=2)
BATCH = 8

TEXTS_PER_TEMPERATURE, PROMPT_LENGTH = 160, 32
TEMPERATURES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Job:
    """Where things are, and what has been made so far."""

    corpus: Path
    work: Path
    out: Path
    draft: GPTConfig
    hurry: int  # every number of steps and texts is divided by this; 1 is the real job

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The vocabulary, learned on first use."""
        path = self.work / "tokenizer.tiktoken"
        if not path.exists():
            say(f"learning a vocabulary of {VOCAB_SIZE} tokens")
            text = (self.corpus / "train.txt").read_text(encoding="utf-8")
            with written_whole(path) as part:
                write_tiktoken(learn_bpe(text, VOCAB_SIZE), part)
        return Tokenizer.from_tiktoken_file(path)

    def tokens(self, *names: str) -> np.ndarray:  # -> [M]
        """The tokens of corpus files, one after another."""
        texts = [(self.corpus / name).read_text(encoding="utf-8") for name in names]
        return np.concatenate(
            [np.array(self.tokenizer.encode(text), np.uint16) for text in texts]
        )

    @cached_property
    def plays(self) -> np.ndarray:
        """The training text."""
        return self.tokens("train.txt")

    @cached_property
    def held_out(self) -> np.ndarray:
        """The three plays that no model is trained on."""
        names = sorted(path.name for path in (self.corpus / "held_out").iterdir())
        return self.tokens(*(f"held_out/{name}" for name in names))


def say(message: str) -> None:
    """One line of progress, at once, with the time of day."""
    print(time.strftime("%H:%M:%S"), message, flush=True)


def hurried(plan: Plan, hurry: int) -> Plan:
    """The plan with fewer steps, for trying the script out."""
    fields = {**plan.__dict__, "n_steps": plan.n_steps // hurry}
    return Plan(**{**fields, "warmup": min(plan.warmup, plan.n_steps // hurry // 10)})


def next_token_loss(model: GPT, ids: Tensor) -> Tensor:
    """Mean cross-entropy of every token given those before it: [B, T + 1] -> []."""
    logits = model(ids[:, :-1]).float()
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


@torch.no_grad()
def held_out_loss(model: GPT, held_out: np.ndarray, n_windows: int = 64) -> str:
    """The loss on the first windows of the held-out plays, as a line of progress."""
    model.eval()
    windows = torch.from_numpy(in_windows(held_out, CONTEXT + 1)[:n_windows])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = [next_token_loss(model, ids).item() for ids in windows.split(BATCH)]
    return f"held-out loss {np.mean(losses):.3f} nats/token"


def train_target(job: Job) -> GPT:
    """Stage 2."""
    model = GPT(TARGET).initialize(torch.Generator().manual_seed(TARGET_PLAN.seed))
    plan = hurried(TARGET_PLAN, job.hurry)
    say(f"training the target, {count(model)} parameters")

    def loss_of(step: int) -> Tensor:
        ids = random_windows(job.plays, BATCH, CONTEXT + 1, plan.seed, step)
        return next_token_loss(model, ids)

    path = job.work / "target.pt"
    train(model, loss_of, plan, path, say, lambda: held_out_loss(model, job.held_out))
    return model.requires_grad_(False)


def own_texts(job: Job, target: GPT) -> np.ndarray:  # -> [N, CONTEXT]
    """Stage 3: what the target writes after short prompts from the plays."""
    path = job.work / "texts.npy"
    if path.exists():
        return np.load(path)
    n_texts = max(1, TEXTS_PER_TEMPERATURE // job.hurry)
    texts = []
    for i, temperature in enumerate(TEMPERATURES):
        say(f"the target writes {n_texts} texts at temperature {temperature}")
        prompts = random_windows(job.plays, n_texts, PROMPT_LENGTH, seed=3, step=i)
        generator = torch.Generator().manual_seed(i)
        texts.append(write_texts(target, prompts, CONTEXT, temperature, generator))
    with written_whole(path) as part:
        np.save(part, torch.cat(texts).numpy())
    return np.load(path)


def all_lessons(job: Job, target: GPT) -> tuple[Lessons, Lessons]:
    """What the draft learns from: the plays, and the target's own texts."""
    plays = in_windows(job.plays, CONTEXT)[: None if job.hurry == 1 else 64]
    texts = own_texts(job, target)
    say("the target scores the plays and its texts")
    return (
        make_lessons(target, plays, job.work / "plays_logits.npy", say),
        make_lessons(target, texts, job.work / "texts_logits.npy", say),
    )


def train_draft(job: Job, lessons: tuple[Lessons, Lessons]) -> GPT:
    """Stage 4: the plays alone at first, then by turns with the target's own texts."""
    plan = hurried(DRAFT_PLAN, job.hurry)
    shape = f"{job.draft.n_layer}x{job.draft.n_embd}"
    model = GPT(job.draft).initialize(torch.Generator().manual_seed(plan.seed))
    say(f"training the draft, {shape}, {count(model)} parameters")
    plays, texts = lessons

    def loss_of(step: int) -> Tensor:
        own = step >= plan.n_steps // 2 and step % 2
        source = texts if own else plays
        rng = np.random.default_rng((plan.seed, step))
        rows = rng.integers(0, len(source.ids), BATCH)
        return imitation_loss(model, *source.batch(rows))

    path = job.work / f"draft_{shape}.pt"
    train(model, loss_of, plan, path, say, lambda: held_out_loss(model, job.held_out))
    return model.requires_grad_(False)


def count(model: GPT) -> str:
    """The number of parameters, for people."""
    return f"{sum(p.numel() for p in model.parameters()):,}"


def ship(job: Job, models: dict[str, GPT]) -> None:
    """Write both folders in float16, and measure what was written."""
    for name, model in models.items():
        folder = job.out / name
        checkpoint.save(model, folder, torch.float16, eos_id=job.tokenizer.eos_id)
        vocabulary = (job.work / "tokenizer.tiktoken").read_bytes()
        (folder / "tokenizer.tiktoken").write_bytes(vocabulary)
        export_tokenizer(job.tokenizer, folder, CONTEXT)
    loaded = {name: checkpoint.load(job.out / name) for name in models}
    say("measuring the pair")
    figures = measure_pair(loaded["target"], loaded["draft"], job.held_out)
    text = json.dumps(figures, indent=2) + "\n"
    (job.out / "figures.json").write_text(text, encoding="utf-8")
    say(text)


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, help="folder that prepare_corpus.py wrote")
    parser.add_argument("--work", type=Path, default=Path("runs/pair"))
    parser.add_argument("--out", type=Path, default=Path("runs/pair/shakespeare"))
    parser.add_argument("--draft-layers", type=positive, default=1, metavar="N")
    parser.add_argument("--draft-width", type=positive, default=64, metavar="E")
    parser.add_argument("--threads", type=positive, default=2)
    parser.add_argument(
        "--hurry",
        type=positive,
        default=1,
        metavar="N",
        help="try the script out with an Nth of all steps and texts, at most "
        f"{TARGET_PLAN.n_steps}; its files go to WORK/hurryN",
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """0 when all stages are done; 2 if one cannot be, 130 after Ctrl-C."""
    args = parse_args(argv)
    return status_of("train_pair", lambda: run_stages(job_of(args)))


def job_of(args: argparse.Namespace) -> Job:
    """The job; ValueError for what would only come to light after hours."""
    torch.set_num_threads(args.threads)
    heads = max(1, args.draft_width // 64)
    shape = GPTConfig(args.draft_layers, heads, args.draft_width, VOCAB_SIZE, CONTEXT)
    if args.hurry > TARGET_PLAN.n_steps:
        raise ValueError(f"--hurry {args.hurry} leaves no step of the target")
    for name in ("train.txt", "held_out"):
        if not (args.corpus / name).exists():
            raise ValueError(f"{args.corpus / name} is missing: run prepare_corpus.py")
    # A trial's files must never be taken for the real job's.
    work = args.work if args.hurry == 1 else args.work / f"hurry{args.hurry}"
    return Job(args.corpus, work, args.out, shape, args.hurry)


def run_stages(job: Job) -> None:
    """Every stage that is not yet done."""
    job.work.mkdir(parents=True, exist_ok=True)
    target = train_target(job)
    draft = train_draft(job, all_lessons(job, target))
    ship(job, {"target": target, "draft": draft})


if __name__ == "__main__":
    sys.exit(ended(main))

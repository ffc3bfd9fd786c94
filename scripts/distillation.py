"""Teaching a draft to guess like its target, and measuring how well it does.

What makes a draft useful is not that it writes well but that it agrees: the chance that
a proposal is kept is the overlap of the two distributions, sum(min(target, draft)). So
the draft learns from the target's whole distribution at every position (Hinton et al.
2015), first on real text and then also on text that the target wrote itself, where
drafting happens (Zhou et al. 2024, "DistillSpec", section 4).

The figures: losses, overlap at temperature 1 and greedy agreement, position by position
of the held-out plays; and acceptance in real decodes, at temperatures 0 and 1.

The target is frozen, so its logits are computed once, for fixed windows, and kept on
disk; a step of distillation then costs only the small model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from training import kept

from minispec.core.draft import ModelDrafter
from minispec.core.randomness import Seeded
from minispec.core.rounds import Generation, Round
from minispec.core.sampling import Sampling, logits_to_probs
from minispec.core.speculative import generate
from minispec.core.text import Request
from minispec.model.gpt2 import GPT

N_PROMPTS, PROMPT_LENGTH, NEW_TOKENS, GAMMA = 24, 64, 160, 4  # of the figures


@dataclass(frozen=True)
class Lessons:
    """N windows of T tokens and the target's logits after each of them."""

    ids: np.ndarray  # [N, T], int64
    logits: np.ndarray  # [N, T, V], float16, mapped from disk

    def batch(self, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Windows `rows` [B] as ids [B, T] and float32 logits [B, T, V]."""
        ids = torch.from_numpy(self.ids[rows])
        return ids, torch.from_numpy(self.logits[rows]).float()


def in_windows(tokens: np.ndarray, length: int) -> np.ndarray:  # [M] -> [N, length]
    """A token stream cut into whole windows; the rest is dropped."""
    n_windows = len(tokens) // length
    return tokens[: n_windows * length].reshape(n_windows, length).astype(np.int64)


def make_lessons(
    target: GPT, ids: np.ndarray, path: Path, say: Callable[[str], None]
) -> Lessons:
    """Run the target over windows [N, T]; what `path` holds already is reused."""
    shape = (*ids.shape, target.config.vocab_size)

    @torch.inference_mode()
    def write(part: Path) -> None:
        logits = np.lib.format.open_memmap(part, "w+", np.float16, shape)
        for first in range(0, len(ids), 8):
            rows = torch.from_numpy(ids[first : first + 8])
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits[first : first + 8] = target(rows).half().numpy()
            if first % 400 == 0:
                say(f"  the target has read {first} of {len(ids)} windows")
        logits.flush()

    def read(path: Path) -> np.ndarray:
        logits = np.load(path, mmap_mode="r")
        if logits.shape != shape:
            raise ValueError(f"its shape is {logits.shape}, expected {shape}")
        return logits

    return Lessons(ids, kept(path, read, write))


def imitation_loss(draft: GPT, ids: Tensor, target_logits: Tensor) -> Tensor:
    """Mean KL(target || draft) over all positions, in nats: [B, T], [B, T, V] -> []."""
    ours = F.log_softmax(draft(ids).float(), dim=-1)
    theirs = F.log_softmax(target_logits, dim=-1)
    return F.kl_div(ours, theirs, reduction="none", log_target=True).sum(-1).mean()


@torch.inference_mode()
def write_texts(
    target: GPT, prompts: Tensor, length: int, temperature: float, seed: int
) -> Tensor:  # [B, P] -> [B, length]
    """Let the target continue B prompts to `length` tokens each, all rows at once."""
    generator = torch.Generator().manual_seed(seed)
    cache = target.new_cache(length, batch=len(prompts))
    texts, sampling = prompts, Sampling(temperature=temperature)
    while texts.shape[1] < length:
        logits = target(texts[:, cache.length :], cache, last=1)[:, 0]
        # Rows are texts here, not positions; no step that looks back is switched on.
        probs = logits_to_probs(logits, sampling, texts[0])
        drawn = torch.multinomial(probs, 1, generator=generator)
        texts = torch.cat([texts, drawn], dim=1)
    return texts


def measure_pair(target: GPT, draft: GPT, held_out: np.ndarray) -> dict[str, object]:
    """All figures, ready for JSON. `held_out` is [M] tokens."""
    windows = torch.from_numpy(in_windows(held_out, target.config.n_positions + 1))
    prompts = windows[:: max(1, len(windows) // N_PROMPTS), :PROMPT_LENGTH]
    return {
        "reading held-out plays": reading(target, draft, windows),
        "decoding greedily": decoding(target, draft, prompts, temperature=0),
        "decoding at temperature 1": decoding(target, draft, prompts, temperature=1),
    }


@torch.inference_mode()
def reading(target: GPT, draft: GPT, windows: Tensor) -> dict[str, float]:
    """Means over every position of windows [N, T + 1], in nats and fractions."""
    sums = torch.zeros(4, dtype=torch.float64)
    for ids in windows.split(4):
        theirs, ours = (m(ids[:, :-1]).log_softmax(-1) for m in (target, draft))
        losses = [-rows.gather(-1, ids[:, 1:, None]).sum() for rows in (theirs, ours)]
        overlap = torch.minimum(theirs.exp(), ours.exp()).sum()
        agreement = (theirs.argmax(-1) == ours.argmax(-1)).sum()
        sums += torch.stack([*losses, overlap, agreement])
    names = ("target loss", "draft loss", "overlap", "greedy agreement")
    means = (sums / windows[:, 1:].numel()).tolist()
    return {name: round(mean, 4) for name, mean in zip(names, means)}


def decoding(
    target: GPT, draft: GPT, prompts: Tensor, temperature: float
) -> dict[str, float]:
    """Acceptance in real decodes after prompts [N, P], gamma 4, over all rounds."""
    drafter = ModelDrafter(draft, Sampling(temperature))
    rounds: list[Round] = []
    for seed, prompt in enumerate(prompts):
        request = Request(prompt, NEW_TOKENS, Sampling(temperature), GAMMA)
        rounds += generate(target, drafter, request, Seeded(seed)).rounds
    pooled = Generation(tuple(rounds))
    figures = {
        "first drafted token accepted": pooled.acceptance_by_position[0],
        "acceptance rate": pooled.acceptance_rate or 0.0,
        "tokens per target forward": pooled.tokens_per_target_forward or 0.0,
    }
    return {name: round(value, 4) for name, value in figures.items()}

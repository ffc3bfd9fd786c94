"""How good a draft is for its target: the figures that decide the speed-up.

On the held-out plays, position by position, both models reading the same real text:
their losses, the overlap sum(min(target, draft)) at temperature 1, which is the chance
that a proposal is kept, and how often the two would choose the same token greedily. And
in real decoding after prompts from those plays, at temperatures 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
import torch.nn.functional as F
from distillation import in_windows
from torch import Tensor

from minispec.draft import ModelDrafter
from minispec.gpt2 import GPT
from minispec.randomness import Seeded
from minispec.sampling import Sampling
from minispec.speculative import generate

N_PROMPTS, PROMPT_LENGTH, NEW_TOKENS, GAMMA = 24, 64, 160, 4


def measure_pair(target: GPT, draft: GPT, held_out: np.ndarray) -> dict[str, object]:
    """All figures, ready for JSON. `held_out` is [M] tokens."""
    context = target.config.n_positions
    windows = torch.from_numpy(in_windows(held_out, context + 1))
    prompts = windows[:: max(1, len(windows) // N_PROMPTS), :PROMPT_LENGTH]
    greedy, sampled = Sampling(temperature=0), Sampling(temperature=1)
    return {
        "reading held-out plays": reading(target, draft, windows),
        "decoding greedily": decoding(target, draft, prompts, greedy),
        "decoding at temperature 1": decoding(target, draft, prompts, sampled),
    }


@torch.inference_mode()
def reading(target: GPT, draft: GPT, windows: Tensor) -> dict[str, float]:
    """Means over every position of windows [N, T + 1], in nats and fractions."""
    sums = torch.zeros(4, dtype=torch.float64)
    for ids in windows.split(4):
        read = ids[:, :-1]
        theirs = target(read).log_softmax(-1).flatten(0, 1)
        ours = draft(read).log_softmax(-1).flatten(0, 1)
        answers = ids[:, 1:].flatten()
        sums[0] += F.nll_loss(theirs, answers, reduction="sum")
        sums[1] += F.nll_loss(ours, answers, reduction="sum")
        sums[2] += torch.minimum(theirs.exp(), ours.exp()).sum()
        sums[3] += (theirs.argmax(-1) == ours.argmax(-1)).sum()
    means = sums / windows[:, 1:].numel()
    names = ("target loss", "draft loss", "overlap", "greedy agreement")
    return {name: round(mean, 4) for name, mean in zip(names, means.tolist())}


def decoding(
    target: GPT, draft: GPT, prompts: Tensor, sampling: Sampling
) -> dict[str, float]:
    """Acceptance in real decodes after prompts [N, P], gamma 4."""
    drafter = ModelDrafter(draft, sampling)
    decodes = [
        generate(target, drafter, prompt, GAMMA, NEW_TOKENS, Seeded(seed), sampling)
        for seed, prompt in enumerate(prompts)
    ]
    rounds = [round for decode in decodes for round in decode.rounds if round.drafted]
    first = [round.drafted[0].fate == "accepted" for round in rounds]
    return {
        "first drafted token accepted": round(float(np.mean(first)), 4),
        "acceptance rate": mean(d.acceptance_rate for d in decodes),
        "tokens per target forward": mean(
            d.tokens_per_target_forward for d in decodes
        ),
    }


def mean(values: Iterable[float | None]) -> float:
    """Rounded mean of those that exist."""
    return round(float(np.mean([v for v in values if v is not None])), 4)

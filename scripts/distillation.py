"""Teaching a draft to guess like its target, for `train_pair.py`.

What makes a draft useful is not that it writes well but that it agrees: the chance that
a proposal is kept is the overlap of the two distributions, sum(min(target, draft)). So
the draft learns from the target's whole distribution at every position (Hinton et al.
2015), first on real text and then also on text that the target wrote itself, where
drafting happens (Zhou et al. 2024, "DistillSpec", section 4).

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
from ending import written_whole
from torch import Tensor

from minispec.gpt2 import GPT
from minispec.sampling import Sampling, logits_to_probs


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


@torch.inference_mode()
def make_lessons(
    target: GPT, ids: np.ndarray, path: Path, say: Callable[[str], None]
) -> Lessons:
    """Run the target over windows [N, T]; a file at `path` is whole and is reused."""
    shape = (*ids.shape, target.config.vocab_size)
    if not path.exists():
        with written_whole(path) as part:
            logits = np.lib.format.open_memmap(part, "w+", np.float16, shape)
            for first in range(0, len(ids), 8):
                rows = torch.from_numpy(ids[first : first + 8])
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    logits[first : first + 8] = target(rows).half().numpy()
                if first % 400 == 0:
                    say(f"  the target has read {first} of {len(ids)} windows")
            logits.flush()
    return Lessons(ids, np.load(path, mmap_mode="r"))


def imitation_loss(draft: GPT, ids: Tensor, target_logits: Tensor) -> Tensor:
    """Mean KL(target || draft) over all positions, in nats: [B, T], [B, T, V] -> []."""
    ours = F.log_softmax(draft(ids).float(), dim=-1)
    theirs = F.log_softmax(target_logits, dim=-1)
    return F.kl_div(ours, theirs, reduction="none", log_target=True).sum(-1).mean()


@torch.inference_mode()
def write_texts(
    target: GPT,
    prompts: Tensor,
    length: int,
    temperature: float,
    generator: torch.Generator,
) -> Tensor:  # [B, P] -> [B, length]
    """Let the target continue B prompts to `length` tokens each, all rows at once."""
    cache = target.new_cache(length, batch=len(prompts))
    texts, sampling = prompts, Sampling(temperature=temperature)
    while texts.shape[1] < length:
        hidden = target.trunk(texts[:, cache.length :], cache)
        logits = target.head(hidden[:, -1:])[:, 0]
        # Rows are texts here, not positions; no step that looks back is switched on.
        probs = logits_to_probs(logits, sampling, texts[0])
        drawn = torch.multinomial(probs, 1, generator=generator)
        texts = torch.cat([texts, drawn], dim=1)
    return texts

"""From logits to the probabilities a token is really drawn from.

    penalties -> minimum length -> temperature -> top-k -> top-p -> min-p (-> coupling)

One chain for the draft and the target, applied row by row. Row i is conditioned on the
prefix and the first i drafted tokens, and so is every step that looks back. What comes
out *is* the model's distribution as far as exactness is concerned: speculative decoding
reproduces the processed target, whatever the chain does to it.

Papers: top-k, Fan et al. 2018, section 5.4; top-p, Holtzman et al. 2020, section 3.1;
min-p, Nguyen et al. 2024, section 3; repetition penalty, Keskar et al. 2019,
section 4.1. Left out: penalties by count, n-gram bans, typical and eta sampling.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from minispec.checks import id_tuple, real_number, require, whole_number
from minispec.core.coupling import coupled


@dataclass(frozen=True)
class Sampling:
    """How to sample, and which tokens end a text.

    The defaults change nothing: the model's own softmax, and no token ends the text.
    Raises TypeError or ValueError for a field that cannot be right.
    """

    temperature: float = 1.0  # 0 is greedy: all mass on the highest logit
    top_k: int | None = None  # keep the k most probable tokens
    top_p: float = 1.0  # keep the fewest most probable tokens of this mass or more
    min_p: float = 0.0  # keep tokens of at least min_p times the highest probability
    repetition_penalty: float = 1.0  # above 1, tokens already in the text weigh less
    min_length: int = 0  # no EOS until the text, prompt included, is this long
    eos_ids: Collection[int] = ()
    noise_seed: int | None = None  # the seed of coupled draws (`coupling`)

    def __post_init__(self) -> None:
        for name in ("temperature", "top_p", "min_p", "repetition_penalty"):
            object.__setattr__(self, name, real_number(name, getattr(self, name)))
        # Beyond these, scores would round to 0 or infinity in float32: 0 / 0 is NaN.
        temperature_fits = self.temperature == 0 or 1e-30 <= self.temperature <= 1e30
        require(temperature_fits, "temperature", "0 or from 1e-30 to 1e30", self)
        penalty_fits = 1e-30 <= self.repetition_penalty <= 1e30
        require(penalty_fits, "repetition_penalty", "from 1e-30 to 1e30", self)
        require(0 < self.top_p <= 1, "top_p", "above 0 and at most 1", self)
        require(0 <= self.min_p <= 1, "min_p", "between 0 and 1", self)
        if self.top_k is not None:
            top_k = whole_number("top_k", self.top_k, least=1)
            object.__setattr__(self, "top_k", top_k)
        min_length = whole_number("min_length", self.min_length, least=0)
        object.__setattr__(self, "min_length", min_length)
        object.__setattr__(self, "eos_ids", id_tuple(self.eos_ids))
        if self.noise_seed is not None:
            noise_seed = whole_number("noise_seed", self.noise_seed, least=0)
            object.__setattr__(self, "noise_seed", noise_seed)
            require(noise_seed < 2**64, "noise_seed", "below 2**64", self)

    @property
    def looks_back(self) -> bool:
        """Whether a row depends on what stands before it, and not on logits alone."""
        seeded = self.noise_seed is not None  # by its position
        return self.repetition_penalty != 1 or self.min_length > 0 or seeded

    def with_min_new_tokens(self, prompt_length: int, n: int) -> Sampling:
        """The same, with no EOS among the first `n` tokens after the prompt."""
        return replace(self, min_length=int(prompt_length) + n)


def logits_to_probs(
    logits: Tensor, sampling: Sampling, history: Tensor
) -> Tensor:  # [R, V], [n + R - 1] -> [R, V]
    """The distribution each row's next token is drawn from, float32 or wider.

    `history` is all the tokens known: row i may look at history[: n + i], where n is
    len(history) - (R - 1). So the last row sees everything and the first only what
    stood before the drafted tokens. Raises ValueError for a row with NaN, +inf, or
    nothing but -inf.
    """
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if sampling.repetition_penalty != 1:
        scores = penalize_repeats(scores, history, sampling.repetition_penalty)
    if sampling.min_length:
        scores = forbid_early_eos(scores, sampling, len(history))
    highest = scores.amax(dim=-1, keepdim=True)
    # Elsewhere this would wait for the device: there, NaN goes on to the draw.
    if scores.is_cpu and not all(map(math.isfinite, highest[:, 0].tolist())):
        raise ValueError(
            "the logits hold NaN, +inf, or a row of only -inf: check the weights, "
            "and that min_length does not forbid the only tokens left"
        )
    if sampling.temperature == 0:
        return one_hot(scores) + (highest - highest)  # plus 0, or NaN
    # Relative to the highest, so that a tiny temperature cannot overflow.
    probs = ((scores - highest) / sampling.temperature).softmax(dim=-1)
    probs = truncate(probs, sampling)
    if sampling.noise_seed is None:
        return probs
    return coupled(probs, sampling.noise_seed, n=len(history) - (len(probs) - 1))


def penalize_repeats(
    scores: Tensor, history: Tensor, penalty: float
) -> Tensor:  # [R, V], [n + R - 1] -> [R, V]
    """Divide positive scores of tokens already seen by the penalty, multiply negative.

    A token counts once however often it occurred. (The paper divides negative scores
    too, which would make their tokens more probable.)
    """
    R, V = scores.shape
    n = len(history) - (R - 1)
    seen = torch.zeros(R, V, dtype=torch.bool, device=scores.device)
    for i in range(R):
        seen[i, history[: n + i]] = True
    penalized = torch.where(scores > 0, scores / penalty, scores * penalty)
    return torch.where(seen, penalized, scores)


def forbid_early_eos(
    scores: Tensor, sampling: Sampling, n_history: int
) -> Tensor:  # [R, V] -> [R, V]
    """No EOS in the rows whose history is still shorter than `min_length`."""
    R, V = scores.shape
    n = n_history - (R - 1)
    n_early = min(max(sampling.min_length - n, 0), R)  # rows 0 .. n_early - 1
    scores = scores.clone()
    scores[:n_early, [eos for eos in sampling.eos_ids if 0 <= eos < V]] = -torch.inf
    return scores


def one_hot(scores: Tensor) -> Tensor:  # [R, V] -> [R, V]
    """All mass on the highest score; of several, on the lowest id."""
    return F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)


def truncate(probs: Tensor, sampling: Sampling) -> Tensor:  # [R, V] -> [R, V]
    """Top-k, then top-p of what is left, then min-p of what is left."""
    if sampling.top_k is not None and sampling.top_k < probs.shape[-1]:
        probs = normalize(keep_top_k(probs, sampling.top_k))
    if sampling.top_p < 1:
        probs = normalize(keep_top_p(probs, sampling.top_p))
    if sampling.min_p > 0:
        probs = normalize(keep_min_p(probs, sampling.min_p))
    return probs


def keep_top_k(probs: Tensor, k: int) -> Tensor:  # [R, V] -> [R, V]
    """Zero all but exactly k tokens; of equals, the lower ids stay."""
    order = probs.sort(dim=-1, descending=True, stable=True).indices
    return probs.scatter(-1, order[:, k:], 0.0)


def keep_top_p(probs: Tensor, mass: float) -> Tensor:  # [R, V] -> [R, V]
    """Zero all but the fewest most probable tokens that together reach `mass`."""
    ranked, order = probs.sort(dim=-1, descending=True, stable=True)
    # A token stays if those before it fall short of `mass`; before the first there is
    # nothing. Rounding decides where a sum should equal `mass` exactly.
    mass_before = F.pad(ranked.cumsum(dim=-1)[:, :-1], (1, 0), value=-torch.inf)
    kept = ranked.where(mass_before < mass, 0.0)
    return torch.zeros_like(probs).scatter(-1, order, kept)


def keep_min_p(probs: Tensor, fraction: float) -> Tensor:  # [R, V] -> [R, V]
    """Zero the tokens below `fraction` of the row's highest probability."""
    return probs.where(probs >= fraction * probs.amax(-1, keepdim=True), 0.0)


def normalize(probs: Tensor) -> Tensor:  # [R, V] -> [R, V]
    """Rows that sum to 1 again."""
    return probs / probs.sum(dim=-1, keepdim=True)

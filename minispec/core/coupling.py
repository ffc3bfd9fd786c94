"""Coupled draws: roll the dice before the text, and every decoder writes the same.

A draw from p can be made with noise that knows nothing of p (the Gumbel-max trick):

    g_x = -log(-log(u_x))     u_x uniform, one for each token x of the vocabulary
    argmax_x (log p_x + g_x)  is x with probability p_x

Let g be a function of a seed and of the position in the text alone. Draft and target
then look at the same noise, and agree whenever their distributions are similar, though
neither knows the other. The target's token at each position is fixed by the seed and
the text before it: as a row, one-hot. So draft, verify and reject stay as they are,
and they write the one text of this seed, whoever drafts, judges, and however far ahead.
Over the seeds, that text has the target's distribution.

The price is acceptance. Draws that may look at both rows agree with 1 - TV, the chance
that `reject` accepts; no draws can agree more often. These, which may not, agree with

    sum_x 1 / sum_y max(p_y / p_x, q_y / q_x)   >=   (1 - TV) / (1 + TV)

because x wins both if E_x / p_x and E_x / q_x are both the smallest, E_x = -log(u_x).

The noise is counter-based: Philox under the key (seed, position) gives it for any
position at once, without the positions before; a larger vocabulary has the same noise
and more. (Python's generator would draw 50,257 numbers one by one: 10 times slower.)
It is made in float64 on the CPU and so is the same for all devices and types. Equal
texts still need logits that are equal up to rounding: where two tokens all but tie,
another order of additions may choose the other.

Paper: Daliri, Musco and Suresh 2025 (arXiv 2408.07978), algorithm 2 and theorem 1; for
Philox, Salmon et al. 2011. Left out: their other coupling, by min-hashing.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

N_RECENT = 64  # positions kept: draft and target ask for the same few


def coupled(probs: Tensor, seed: int, n: int) -> Tensor:  # [R, V] -> [R, V]
    """One-hot rows: the tokens that this seed draws at positions n, n + 1, ...

    Row i is the distribution of the token at index n + i of the text.
    """
    return perturbed_choice(probs, noise_beside(probs, seed, n))


def noise_beside(rows: Tensor, seed: int, n: int) -> Tensor:  # [R, V] -> [R, V]
    """The noise of positions n, n + 1, ..., where the rows are."""
    R, V = rows.shape
    noise = torch.stack([gumbel_noise(seed, n + i, V) for i in range(R)])
    return noise.to(rows.device)


def perturbed_choice(probs: Tensor, noise: Tensor) -> Tensor:  # 2 x [R, V] -> [R, V]
    """One-hot at argmax(log p + noise), compared in float64."""
    chosen = (probs.double().log() + noise).argmax(dim=-1)  # log 0 never wins
    return F.one_hot(chosen, probs.shape[-1]).to(probs.dtype)


@lru_cache(maxsize=N_RECENT)
def gumbel_noise(seed: int, position: int, V: int) -> Tensor:  # -> [V], not to change
    """The noise of one position: a function of seed and position alone."""
    return gumbel(uniforms(seed, position, V))


def uniforms(seed: int, position: int, V: int) -> Tensor:  # -> [V] float64
    """The first V numbers of the stream under this key, strictly between 0 and 1."""
    stream = np.random.Philox(key=np.array([seed, position], dtype=np.uint64))
    high_bits = stream.random_raw(V) >> np.uint64(12)  # 52 of them, then a half:
    return torch.from_numpy((high_bits + 0.5) * 2.0**-52)  # neither 0 nor 1 comes out


def gumbel(u: Tensor) -> Tensor:
    """A Gumbel variable, whose distribution function exp(-exp(-g)) is u at g."""
    return -(-u.log()).log()


def coupled_overlap(target_row: Tensor, draft_row: Tensor) -> Tensor:  # 2 x [V] -> []
    """The chance, over seeds, that coupled draws from these rows agree: see above.

    Sorted by target / draft, y above x brings p_y / p_x and y below x q_y / q_x, so
    two running sums hold every inner sum.
    """
    order = torch.atan2(target_row, draft_row).argsort()
    p, q = target_row.double()[order], draft_row.double()[order]
    above = p.flip(0).cumsum(0).flip(0)  # sum of p_y from x on
    below = q.cumsum(0) - q
    return (1 / (above / p + below / q)).where((p > 0) & (q > 0), 0.0).sum()


def coupled_overlap_bound(overlap: Tensor) -> Tensor:
    """The least that `coupled_overlap` can be where the rows' overlap is 1 - TV."""
    return overlap / (2 - overlap)

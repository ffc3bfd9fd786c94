"""When speculation pays: tokens per round, speed-up, the best draft length.

    alpha   chance that a draft is accepted, once judged  E[sum_x min(target, draft)]
    gamma   tokens drafted each round
    c       cost ratio: one draft step / one step of the target
    v       verification cost: one pass over gamma + 1 tokens / one step of the target

    tokens per round = 1 + alpha + ... + alpha^gamma
                     = (1 - alpha^(gamma+1)) / (1 - alpha)
    speed-up         = tokens per round / (gamma c + v)

A round that makes t tokens takes gamma c + v steps of the target, and the target alone
would take t. The paper sets v = 1, as if a pass over a few tokens cost what a pass over
one does. That holds while reading the weights is what takes the time (the memory-bound
model below); on a CPU it does not, so v is an argument here.

Assumed: each draft is accepted with the same chance alpha, whatever happened to the
others. Text has easy stretches and hard ones, so real rounds scatter more. Where tokens
per round are measured, `round_speedup` needs no such assumption.

Alpha is accepted / judged: the drafts after a rejection, which no one judged, do not
count. Serving engines report accepted / drafted, which is lower and depends on gamma;
`alpha_from_accepted_per_drafted` converts it.

Paper: Leviathan, Kalman and Matias 2023 (arXiv 2211.17192), section 3. Left out:
draft lengths that adapt, and the cost of the prompt.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

# ---------------------------------------------------------------- tokens per round


def overlap(target_row: Tensor, draft_row: Tensor) -> Tensor:  # 2 x [..., V] -> [...]
    """The chance that a draft from `draft_row` is accepted: sum_x min(target, draft).

    That is 1 minus the total variation distance of the rows (theorem 3.5). Alpha is its
    mean over the positions of a text (corollary 3.6).
    """
    return torch.minimum(target_row, draft_row).sum(dim=-1)


def expected_tokens(alpha: float, gamma: int) -> float:
    """Mean tokens of a round: 1 + alpha + ... + alpha^gamma (equation 1).

    The term alpha^i is the chance that at least i drafts are accepted; the 1 is the
    token that the target adds to every round. From 1 to gamma + 1. Summed term by term,
    which is exact at alpha = 1, where the closed form is 0 / 0.

    Raises ValueError for an alpha outside [0, 1] and for a gamma below 0.
    """
    _check_alpha(alpha)
    _check("gamma", gamma, gamma >= 0, "0 or more")
    return sum(alpha**i for i in range(gamma + 1))


def alpha_from_accepted_per_drafted(share: float, gamma: int) -> float:
    """The alpha at which rounds of `gamma` drafts accept this share of them all.

    The root of (alpha + ... + alpha^gamma) / gamma = share: what engines report as
    acceptance rate, or their mean accepted length less the extra token, over gamma.

    Raises ValueError for a share outside [0, 1] and for a gamma below 1.
    """
    _check("accepted per drafted", share, 0 <= share <= 1, "from 0 to 1")
    _check("gamma", gamma, gamma >= 1, "at least 1")
    return _least(lambda alpha: expected_tokens(alpha, gamma) >= 1 + gamma * share)


# ------------------------------------------------------------------------- speed-up


def round_speedup(
    tokens: float, drafted: float, cost_ratio: float, verify_cost: float = 1.0
) -> float:
    """Speed-up of rounds that make `tokens` from `drafted` on average.

    tokens / (drafted * c + v), both as measured or as expected: nothing is assumed of
    how acceptance is distributed. A pure number; below 1 the rounds are a loss.

    Raises ValueError for counts or a cost ratio below 0 and a verification cost not
    above 0.
    """
    _check("tokens", tokens, tokens >= 0, "0 or more")
    _check("drafted", drafted, drafted >= 0, "0 or more")
    _check("cost_ratio", cost_ratio, cost_ratio >= 0, "0 or more")
    _check("verify_cost", verify_cost, verify_cost > 0, "above 0")
    return tokens / (drafted * cost_ratio + verify_cost)


def expected_speedup(
    alpha: float, gamma: int, cost_ratio: float, verify_cost: float = 1.0
) -> float:
    """Speed-up predicted from alpha and costs alone (theorem 3.8).

    `cost_ratio` is one draft step and `verify_cost` one verification of gamma + 1
    tokens, both over one step of the target. The paper's case is `verify_cost` = 1.

    Raises ValueError as `expected_tokens` and `round_speedup` do.
    """
    tokens = expected_tokens(alpha, gamma)
    return round_speedup(tokens, gamma, cost_ratio, verify_cost)


def flat_cost(gamma: int) -> float:
    """The paper's assumption: verifying gamma + 1 tokens costs one step."""
    return 1.0


def best_gamma(
    alpha: float,
    cost_ratio: float,
    verify_cost: Callable[[int], float] = flat_cost,
    longest: int = 64,
) -> int:
    """The gamma of the highest expected speed-up, of equals the smallest (section 3.5).

    0 means: do not speculate, since no gamma up to `longest` makes it faster. With a
    flat cost that is so exactly where alpha <= c (`break_even_alpha`).
    `verify_cost(gamma)` gives the cost of verifying gamma + 1 tokens, e.g. from a table
    of measurements.

    Raises ValueError as `expected_speedup` does, and for a `longest` below 0.
    """
    _check_alpha(alpha)
    _check("cost_ratio", cost_ratio, cost_ratio >= 0, "0 or more")
    _check("longest", longest, longest >= 0, "0 or more")
    best, highest = 0, 1.0  # no speculation: as fast as the target alone
    for gamma in range(1, longest + 1):
        speedup = expected_speedup(alpha, gamma, cost_ratio, verify_cost(gamma))
        if speedup > highest:
            best, highest = gamma, speedup
    return best


def break_even_alpha(
    gamma: int, cost_ratio: float, verify_cost: float = 1.0
) -> float | None:
    """The alpha above which rounds of `gamma` drafts are a gain; None if there is none.

    The root of expected_tokens(alpha, gamma) = gamma c + v, found by bisection: the
    left side grows with alpha. With a flat cost a single draft breaks even at
    alpha = c and longer ones later: speculation can help if (corollary 3.9) and only
    if alpha > c.

    Raises ValueError for a gamma below 1 and as `round_speedup` does.
    """
    _check("gamma", gamma, gamma >= 1, "at least 1")

    def pays(alpha: float) -> bool:
        return expected_speedup(alpha, gamma, cost_ratio, verify_cost) >= 1

    return _least(pays) if pays(1.0) else None


def _least(holds: Callable[[float], bool]) -> float:
    """The least alpha at which `holds`; it holds from there up to 1."""
    if holds(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:  # until no float lies between
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def batch_speedup(
    alpha: float,
    gamma: int,
    n_texts: int,
    pass_cost: Callable[[int], float],
    draft_cost: Callable[[int], float],
) -> float:
    """Speed-up that is left when `n_texts` texts share each pass.

    `pass_cost(rows)` is a pass of the target over so many tokens of any texts, and
    `draft_cost(rows)` one of the draft, both over a step of the target for one text. A
    round feeds n_texts (gamma + 1) rows and a step of the target alone n_texts: where
    rows are free, a batch changes nothing; where each is paid for, a rejected draft is
    a loss. Raises ValueError as `expected_tokens` and `round_speedup` do.
    """
    tokens, alone = expected_tokens(alpha, gamma), pass_cost(n_texts)
    drafting = gamma and draft_cost(n_texts) / alone
    verifying = pass_cost(n_texts * (gamma + 1)) / alone
    return round_speedup(tokens, gamma, drafting, verifying)


# ---------------------------------------------------------- the memory-bound model


def seconds_per_token(
    n_parameters: float, bytes_per_parameter: float, bytes_per_second: float
) -> float:
    """Time of one decoding step that does nothing but read every weight once, seconds.

    70e9 parameters of 2 bytes over 3.35e12 bytes per second take 42 ms. A floor: it
    leaves out the cache, which is read too, and all arithmetic.

    Raises ValueError for a number that is not above 0.
    """
    _check_positive("n_parameters", n_parameters)
    _check_positive("bytes_per_parameter", bytes_per_parameter)
    _check_positive("bytes_per_second", bytes_per_second)
    return n_parameters * bytes_per_parameter / bytes_per_second


def tokens_while_flat(
    bytes_per_parameter: float, bytes_per_second: float, flops_per_second: float
) -> float:
    """How many tokens a pass can hold before arithmetic takes longer than reading.

    One token costs 2 operations per weight (multiply, add), one pass reads each weight
    once: they meet at bytes_per_parameter * flops_per_second / (2 * bytes_per_second)
    tokens. Up to there verification is nearly free, whatever the model's size.

    Raises ValueError for a number that is not above 0.
    """
    _check_positive("bytes_per_parameter", bytes_per_parameter)
    _check_positive("bytes_per_second", bytes_per_second)
    _check_positive("flops_per_second", flops_per_second)
    return bytes_per_parameter * flops_per_second / (2 * bytes_per_second)


def roofline_cost(rows: int, flat: float) -> float:
    """A pass over `rows` tokens, over one of a single token: flat, then proportional.

    `flat` is what `tokens_while_flat` says. Real machines bend earlier and smoothly.
    """
    return max(1.0, rows / flat)


# --------------------------------------------------------------------------- checks


def _check(name: str, value: float, is_allowed: bool, expected: str) -> None:
    if not (is_allowed and math.isfinite(value)):
        raise ValueError(f"{name} must be {expected} and finite, got {value}")


def _check_positive(name: str, value: float) -> None:
    _check(name, value, value > 0, "above 0")


def _check_alpha(alpha: float) -> None:
    _check("alpha", alpha, 0 <= alpha <= 1, "from 0 to 1")

"""How many tokens to draft: policies that learn from the rounds before.

    constant(gamma)            always the same
    accepted_history(first)    two more after a round that accepted all, else one less
    best_length(c, v)          what pays best at the acceptance seen of late

A long draft is wasted where text is hard, a short one leaves speed where it is easy,
and one text has both. Each policy is a function of the past rounds alone, never of
what this round would draft: the output distribution stays the target's whatever it
answers, for `reject` is exact at every K. What depends on the drafts themselves, to
stop when unsure, is the drafter's (`ModelDrafter`).

`best_length` counts accepted and judged drafts, a round that lies k rounds back with
weight FADE^k, and adds PRIOR_WEIGHT judged drafts of acceptance PRIOR, so that the
first rounds cannot mislead it:

    alpha = (PRIOR_WEIGHT PRIOR + sum FADE^k accepted_k)
            / (PRIOR_WEIGHT     + sum FADE^k judged_k)
    gamma = the best for this alpha and these costs (`analysis.best_gamma`)

Where nothing pays it answers 0, nothing is judged, and the estimate fades back to the
prior: after some rounds it tries again. Rounds without a draft cost the same whatever
gamma is, so a drafter that often has none (`ngram`) is judged by the rounds where it
had one.

References: the +2 / -1 rule is the heuristic of Hugging Face transformers' assisted
generation; the best gamma, Leviathan, Kalman and Matias 2023, section 3.5. Left out:
acceptance by position, which a simulation on recorded rounds found no better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from minispec.core.analysis import best_gamma, flat_cost
from minispec.core.rounds import Length, Round
from minispec.checks import whole_number

PRIOR, PRIOR_WEIGHT = 0.7, 2.0
FADE, N_RECENT = 0.9, 32  # 0.9^32 = 0.03: what is older hardly counts
STEPS = 200  # alpha is looked up to 1 / 200


def constant(gamma: int) -> Length:
    """The same in every round. Raises as `whole_number` does for a gamma below 0."""
    gamma = whole_number("gamma", gamma, least=0)
    return lambda past: gamma


def accepted_history(first: int = 5, longest: int = 16) -> Length:
    """Two more than the last round drafted if all were accepted, else one less.

    From 1 to `longest`; `first` at the beginning and after a round without drafts.
    Raises TypeError or ValueError for lengths below 1.
    """
    first = whole_number("first", first, least=1)
    longest = whole_number("longest", longest, least=1)

    def length(past: Sequence[Round]) -> int:
        K = len(past[-1].tokens) if past else 0
        if K == 0:
            return min(first, longest)
        return min(K + 2, longest) if past[-1].n_accepted == K else max(1, K - 1)

    return length


def best_length(
    cost_ratio: float,
    verify_cost: Callable[[int], float] = flat_cost,
    longest: int = 16,
) -> Length:
    """The best gamma for the acceptance of the last rounds, from measured costs.

    `cost_ratio` is one draft step and `verify_cost(gamma)` one pass over gamma + 1
    tokens, both over one step of the target. Raises ValueError as `best_gamma` does.
    """
    alphas = [step / STEPS for step in range(STEPS + 1)]
    best = [best_gamma(alpha, cost_ratio, verify_cost, longest) for alpha in alphas]
    return lambda past: best[round(recent_alpha(past) * STEPS)]


def recent_alpha(past: Sequence[Round]) -> float:
    """Accepted / judged of the last N_RECENT rounds, the newest weighted most."""
    accepted, judged, weight = PRIOR * PRIOR_WEIGHT, PRIOR_WEIGHT, 1.0
    for one in reversed(past[-N_RECENT:]):
        accepted += weight * one.n_accepted
        judged += weight * one.judged
        weight *= FADE
    return accepted / judged

"""Block verification: judge the drafts together, and accept more of them.

`reject` forgets. A draft that the target likes twice as much as the draft model did is
accepted with ratio 2, cut to 1, and the surplus is lost. Block verification lets it
make up for drafts before it that the target liked less. With t_i and d_i the rows at
draft i, after the drafts before it, and x_i the draft:

    kept_0 = 1    kept_i = min(1, kept_{i-1} t_i(x_i) / d_i(x_i))
    S_i    = sum_x max(0, kept_i t_{i+1}(x) - d_{i+1}(x))      still wanted after x_i
    h_i    = S_i / (S_i + 1 - kept_i)     h_K = kept_K
    tau    = the largest i that passes an independent trial of chance h_i, else 0

Keep tau drafts and draw from norm(max(0, kept_tau t - d)), or from the bonus row if
tau = K. A failed trial rejects nothing: a later one may pass, and keep all before it.

Why the output distribution does not change. Claim: given the first i drafts alone, they
are kept (tau >= i) with chance kept_i. It holds at i = K. If it holds at i + 1, then
drafts beyond i are kept with this chance, where t and d stand for t_{i+1} and d_{i+1}:

    sum_x d(x) min(1, kept_i t(x) / d(x)) = sum_x min(d(x), kept_i t(x)) = kept_i - S_i

and otherwise h_i decides: (kept_i - S_i) + (1 - kept_i + S_i) h_i = kept_i. So tau = i
with chance S_i, and token x follows with chance

    min(d(x), kept_i t(x))  +  max(0, kept_i t(x) - d(x))  =  kept_i t(x)
    drafted and kept           drawn in its place

which is the target's share of what is kept. K may depend on the drafts, as it does
where a drafter stops when unsure, and drafts after an EOS take part in the trials: the
claim speaks of each row of drafts alone, and a cut at the EOS comes after.

On average no fewer are accepted than by `reject`, which keeps i drafts with the product
of min(1, ratio): given the first i drafts, kept_i is at least that. (Given all K, it
may keep fewer.) For K = 1 they are the same.

Paper: Sun et al. 2024 (arXiv 2403.10444), algorithm 2. Left out: its greedy variant,
which changes the target's rows of the next round.
"""

from __future__ import annotations

from torch import Tensor

from minispec.core.randomness import Randomness
from minispec.core.rejection import Verdict, acceptance_ratios, residual


def reject_block(
    tokens: Tensor, draft_probs: Tensor, target_probs: Tensor, randomness: Randomness
) -> Verdict:  # [K], [K, V], [K + 1, V]
    """Keep the longest run of drafts that passes; draw the token after them."""
    K = len(tokens)
    kept = chances_kept(acceptance_ratios(tokens, draft_probs, target_probs))
    wanted = kept[:-1, None] * target_probs[:-1]  # [K, V]: row i after i drafts
    chances = [*trial_chances(kept[:-1], wanted, draft_probs).tolist(), float(kept[-1])]
    # The first to pass from the right is the longest: those before need no trial.
    passed = (i for i in range(K, 0, -1) if randomness.accept(chances[i]))
    tau = next(passed, 0)
    if tau == K:
        return Verdict(K, randomness.sample(target_probs[-1]))
    return Verdict(tau, randomness.sample(residual(wanted[tau], draft_probs[tau])))


def chances_kept(ratios: Tensor) -> Tensor:  # [K] -> [K + 1]
    """kept_i: the chance that at least i drafts are kept, given x_1..x_i.

    It is averaged over the drafts after them.
    """
    kept = [1.0]
    for ratio in ratios.tolist():
        kept.append(min(kept[-1] * ratio, 1.0))
    return ratios.new_tensor(kept)


def trial_chances(
    kept: Tensor, wanted: Tensor, draft_probs: Tensor
) -> Tensor:  # [K], [K, V], [K, V] -> [K]
    """h_i, the chance to keep i drafts where no more are kept."""
    left = (wanted - draft_probs).clamp(min=0).sum(dim=-1)
    # kept = 1 makes it 1. Equal rows leave nothing there, 0 / 0, but then the next
    # draft is kept for certain and this trial is never asked for.
    return (left / (left + 1 - kept)).where(kept != 1, 1.0)

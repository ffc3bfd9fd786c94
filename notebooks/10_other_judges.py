# %% [markdown]
# # 10. Other judges, coupled dice, and the price of lossy ones
#
# `reject` is not the only way to decide which drafts stay. At the end of this notebook
# you will be able to explain
#
# - how block verification keeps more drafts and still the same distribution,
# - how draft and target can roll the same dice, so that a draft changes no letter of
#   the text, even with sampling,
# - what a judge that is not exact buys, and what it costs, in numbers.
#
# Read beside it: `minispec/judges/`, `minispec/core/coupling.py`,
# `minispec/exactness/price.py`. Notebook 4 comes before this one.

# %%
import sys
from dataclasses import replace
from itertools import product


import minispec
import torch

if (folder := f"{minispec.__path__[0]}/../notebooks") not in sys.path:
    sys.path.append(folder)  # to run in any working directory

from figures import COLOURS, axes, bars, curves, titles
from minispec import (
    ModelDrafter,
    NgramDrafter,
    Request,
    Sampling,
    Seeded,
    generate,
    generate_alone,
    reject,
    speculative_rounds,
)
from minispec.core.analysis import overlap
from minispec.core.coupling import (
    coupled_overlap,
    coupled_overlap_bound,
    gumbel_noise,
    perturbed_choice,
)
from minispec.core.rejection import acceptance_ratios
from minispec.exactness import (
    assert_same_distribution,
    output_distribution,
    price_of,
    total_variation,
)
from minispec.exactness.one_round import (
    distribution_of_one_round,
    distribution_of_rows,
)
from minispec.judges.block import chances_kept, reject_block
from minispec.judges.lossy import agree_on_top_k, lenient, typical
from workbench import DRAFT, TARGET, encode, in_type, passages, words

# %% [markdown]
# ## What `reject` throws away
#
# `reject` judges each draft alone, with $\min(1, t/d)$. The cut at 1 is a loss: a draft
# that the target likes twice as much counts no more than one it likes just as well. The
# smallest example has two tokens (it is from the paper, Sun et al. 2024). At each of
# two positions the draft gives A 2/3 and B 1/3, and the target the reverse. Ratios: A
# 1/2, B 2.
#
# **Predict, then run:** the draft is A B. This text has the same probability, 2/9,
# under both models. How often does `reject` keep both drafts, and does it have to
# reject any?

# %%
draft_row = torch.tensor([2 / 3, 1 / 3], dtype=torch.float64)
target_row = draft_row.flip(0)
draft_rows, target_rows = draft_row.expand(2, 2), target_row.expand(3, 2)

both_kept, expected = {"reject": [], "block": []}, {"reject": 0.0, "block": 0.0}
print("draft  probability   ratios        reject: 1st, both   block: kappa_1, 2")
for pair in product(range(2), repeat=2):
    ratios = acceptance_ratios(torch.tensor(pair), draft_rows, target_rows)
    chance = float(draft_row[list(pair)].prod())
    kept = {
        "reject": ratios.clamp(max=1).cumprod(dim=0).tolist(),
        "block": chances_kept(ratios)[1:].tolist(),
    }
    for name, (first, both) in kept.items():
        both_kept[name].append(both)
        expected[name] += chance * (first + both)
    shown = "".join(f"{a:>13.2f}{b:>6.2f}" for a, b in kept.values())
    name = " ".join("AB"[token] for token in pair)
    r = ", ".join(f"{ratio:.1f}" for ratio in ratios.tolist())
    print(f"{name}{chance:>13.3f}      {r}{shown}")
for name, accepted in expected.items():
    print(f"{name:<7} expected to accept {9 * accepted:.0f}/9 drafts of a round of 2")

[ax] = axes(width=5.5)
bars(ax, ["A A", "A B", "B A", "B B"], both_kept)
ax.set_ylim(0, 1.3)
titles(ax, "drafts", "chance that both are kept")

# %% [markdown]
# **Figure 10.1.** How often both drafts are kept. For A B, `reject` tosses a coin over
# A and throws away that B had twice the ratio it needed. Block verification multiplies
# first and cuts afterwards: $\frac12 \cdot 2 = 1$, so A B is always kept. 10/9 accepted
# drafts become 11/9.
#
# Why not for B A? Half of all texts that begin with B do so because an A was rejected.
# What follows there is drawn from the target, and is A in a third of them: B A already
# comes out in 1/9 of the texts. The target wants it in 2/9. So only half of the drafts
# B A may stay: a surplus can pay for an earlier deficit, not for a later one.
#
# (The last two columns are $\kappa_1$ and $\kappa_2$. The first is known from the first
# draft alone, averaged over the second: after A, A B is always kept and A A in a
# quarter of the rounds, which makes one half.)
#
# ## Why it is exact
#
# $\kappa_i = \min(1, \kappa_{i-1} t/d)$ is the chance that $i$ drafts or more are kept,
# given the first $i$ and averaged over the drafts after them. The judge reaches it by
# trials, from all $K$ drafts down to one: a run of $i$ drafts passes with the chance
# $h_i$, and the first run that passes is kept. With $S_i = \sum_x \max(0, \kappa_i t -
# d)$, what is still wanted after $i$ drafts,
#
# $$h_K = \kappa_K, \qquad h_i = \frac{S_i}{S_i + 1 - \kappa_i}.$$
#
# The next token then comes from $\max(0, \kappa_i t - d)$, normalised. So whatever
# begins with these drafts comes out with $\kappa_i$ times the target's share, at every
# length. (`judges/block.py` has the proof, eight lines.) Here
# by enumeration, for rows that differ by position:

# %%
generator = torch.Generator().manual_seed(0)
rows = torch.rand(2, 4, 3, dtype=torch.float64, generator=generator)
rows /= rows.sum(dim=-1, keepdim=True)
some_target, some_draft = rows[0], rows[1, :3]
due = distribution_of_rows(some_target)
for name, judge in {"reject": reject, "block": reject_block}.items():
    found = distribution_of_one_round(judge, some_target, some_draft)
    assert_same_distribution(found, due)
    print(f"{name}: {len(due)} texts, off by {total_variation(found, due):.0e}")

# %% [markdown]
# ## On the shipped pair
#
# How many drafts does each judge keep there? No coin needs to be tossed to see it: from
# the rows of a round follows the *expected* number, for any draft length up to the one
# drafted. And both judges see the same drafts.

# %%
LONGEST = 8


def rows_of(n_texts, n_tokens, sampling=Sampling()):
    """Tokens and rows of the rounds of some texts."""
    for seed, text in enumerate(passages()[:n_texts]):
        request = Request(encode(text), n_tokens, sampling, LONGEST)
        drafter = ModelDrafter(DRAFT, sampling)
        for one in speculative_rounds(TARGET, drafter, request, Seeded(seed)):
            if len(one.tokens) == LONGEST:
                yield torch.tensor(one.tokens), *one.rows


rounds = list(rows_of(n_texts=12, n_tokens=72))
tokens_per_round = {"reject": torch.ones(LONGEST), "block": torch.ones(LONGEST)}
for one in rounds:
    ratios = acceptance_ratios(*one)
    by_reject = ratios.clamp(max=1).cumprod(dim=0)
    by_block = chances_kept(ratios)[1:]
    assert (by_block >= by_reject - 1e-6).all()  # given the first i drafts
    tokens_per_round["reject"] += by_reject.cumsum(dim=0) / len(rounds)
    tokens_per_round["block"] += by_block.cumsum(dim=0) / len(rounds)

print(f"{len(rounds)} rounds\ngamma   reject   block    more")
for gamma in (1, 2, 4, 8):
    a, b = (float(means[gamma - 1]) for means in tokens_per_round.values())
    print(f"{gamma:>5}{a:>9.3f}{b:>8.3f}{b / a - 1:>8.1%}")
[ax] = axes(width=5.5)
gammas = range(1, LONGEST + 1)
curves(ax, gammas, {name: means.tolist() for name, means in tokens_per_round.items()})
ax.set_ylim(1, None)
titles(ax, "gamma (drafted tokens)", "expected tokens per round")

# %% [markdown]
# **Figure 10.2.** Expected tokens of a round on the shipped pair, at temperature 1.
# Block verification costs nothing, keeps the distribution, and keeps no fewer drafts on
# average. With one draft it is `reject`. With four the gain is a few per cent (the
# paper reports 5 to 8 % of time), and it grows with gamma.
#
# ## Coupled dice
#
# The draft draws, and the judge corrects for the difference. Here is another idea: let
# both roll the *same* dice. A draw can be made with noise that knows
# nothing of the probabilities. Give each token $x$ a number $u_x$ between 0 and 1 and
# take
#
# $$\text{argmax}_x \; (\log p_x + g_x), \qquad g_x = -\log(-\log u_x).$$
#
# This is $x$ with probability exactly $p_x$ (the Gumbel-max trick). Check it by
# counting:

# %%
p = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64)
noise = torch.stack([gumbel_noise(0, position, 3) for position in range(20_000)])
print("position   noise of A, B, C          log p + noise        drawn")
for position in range(4):
    g, scores = noise[position], p[0].log() + noise[position]
    shown = "".join(f"{value:>7.2f}" for value in [*g.tolist(), *scores.tolist()])
    print(f"{position:>8}{shown[:21]}{shown[21:]:>26}{'ABC'[scores.argmax()]:>9}")
shares = perturbed_choice(p.expand(len(noise), 3), noise).mean(dim=0)
print("drawn in 20,000 positions:", [round(share, 3) for share in shares.tolist()])

# %% [markdown]
# Now make the noise a function of a seed and the *position in the text*, and of nothing
# else. Then the target's token at a position is fixed by the seed and the text before:
# its row is one-hot. A draft model with the same noise often picks the same token. And
# the text is the one text of this seed, whoever drafts, judges, and however far ahead.
#
# **Predict, then run:** temperature 0.8, and five ways to decode. Which texts are equal
# with the same ordinary seed, and which with coupled noise?

# %%
target, small = in_type(TARGET, torch.float64), in_type(DRAFT, torch.float64)
prompt = encode("PROSPERO:\nNow my charms are all")


def five_ways(sampling):
    """The same text by five decoders; `Seeded(7)` for each."""
    request = Request(prompt, 32, sampling)
    model, ngram = ModelDrafter(small, sampling), NgramDrafter(1024)
    yield "target alone", generate_alone(target, request, Seeded(7)).tokens
    for name, drafter, gamma, judge in [
        ("gamma 2", model, 2, reject),
        ("gamma 8", model, 8, reject),
        ("block, gamma 4", model, 4, reject_block),
        ("prompt lookup", ngram, 4, reject),
    ]:
        asked = replace(request, gamma=gamma, judge=judge)
        yield name, generate(target, drafter, asked, Seeded(7)).tokens


ordinary = dict(five_ways(Sampling(temperature=0.8)))
coupled = dict(five_ways(Sampling(temperature=0.8, noise_seed=7)))
for title, texts in {"ordinary": ordinary, "coupled": coupled}.items():
    print(f"{title}:")
    for name, text in texts.items():
        same = "the same" if text == texts["target alone"] else "another text"
        print(f"  {name:<15} {same:<13} {words(text[:6])}")
assert len(set(coupled.values())) == 1

# %% [markdown]
# With ordinary draws the *distribution* is the same and the text is not, since a draft
# uses up other random numbers. With coupled draws it is the same text, to the last
# token. That makes speculation testable with one comparison, and a user's seed keeps
# its meaning. (In float32 a tie in the last digit can still make two texts diverge;
# notebook 7. So this is computed in float64.)
#
# ## The price of coupling
#
# `reject` accepts with $1 - TV$, the overlap of the two rows. No pair of draws can
# agree more often. Coupled draws, which must do without looking at the other row, agree
# a little less, and never less than $(1 - TV) / (1 + TV)$.

# %%
pairs = torch.rand(400, 2, 3, dtype=torch.float64, generator=generator) ** 3
pairs /= pairs.sum(dim=-1, keepdim=True)
pairs = list(pairs) + [
    torch.stack([target_probs[i], draft_probs[i]]).double()
    for _, draft_probs, target_probs in rounds[:150] for i in range(2)
]
best = torch.stack([overlap(t, d) for t, d in pairs])
agree = torch.stack([coupled_overlap(t, d) for t, d in pairs])
assert (agree <= best + 1e-9).all()
assert (agree >= coupled_overlap_bound(best) - 1e-6).all()

[ax] = axes(width=5, height=3.4)
line = torch.linspace(0, 1, 50)
ax.plot(line, line, "-", color=COLOURS[0], label="1 - TV: ordinary draws, judged")
ax.plot(line, coupled_overlap_bound(line), "--", color=COLOURS[0], label="the bound")
for part, marker, colour, name in [
    (slice(400), ".", COLOURS[3], "random rows of three tokens"),
    (slice(400, None), "x", COLOURS[1], "rows of the shipped pair"),
]:
    ax.plot(best[part], agree[part], marker, color=colour, ms=5, label=name)
ax.legend(loc="upper left")
titles(ax, "1 - TV of the two rows", "coupled draws agree")
bound = coupled_overlap_bound(best[400:]).mean()
print("shipped pair, on average:")
print(f"1 - TV {best[400:].mean():.3f}, bound {bound:.3f}")
print(f"coupled draws agree {agree[400:].mean():.3f}")

# %% [markdown]
# **Figure 10.3.** How often coupled draws agree, for random pairs of rows (dots) and
# real ones (crosses), between the overlap (solid) and the bound of Daliri, Musco and
# Suresh 2025 (dashed). Coupling costs the shipped pair about five acceptances in a
# hundred.
#
# ## Judges that are not exact
#
# All judges so far keep the target's distribution. Some in use do not, and gain speed:
#
# - `lenient`: accept with $\min(1, t / (\lambda d))$, $\lambda$ below 1;
# - `typical` (Medusa): accept what the target finds probable enough, measured by the
#   entropy of its row;
# - `agree_on_top_k`: accept what is among the target's $k$ most probable tokens.
#
# What does the gain cost? `price_of` enumerates the decoder. The price is the total
# variation between its texts and the target's: the largest error in the probability of
# anything one may ask about a text. Here for three tokens by the shipped pair, gamma 2.
# Each model draws from its three most probable tokens, which makes 27 texts.
#
# **Predict, then run:** is there a judge that is both wrong and slower than `reject`?

# %%
only = Sampling(top_k=3)
start = encode("PROSPERO:\nNow my")
request = Request(start, 3, only, gamma=2)
due = output_distribution(lambda chance: generate_alone(target, request, chance).tokens)
judges = {
    "reject": reject,
    "lenient 0.8": lenient(0.8),
    "lenient 0.5": lenient(0.5),
    "typical": typical(),
    "top 2": agree_on_top_k(2),
    "top 1": agree_on_top_k(1),
}
prices = {}
print(f"{'':<13}total variation   tokens per round")
for name, judge in judges.items():
    judged = replace(request, judge=judge)

    def write(chance):
        return generate(target, ModelDrafter(small, only), judged, chance)

    prices[name] = price_of(write, due)
    far, fast = prices[name].total_variation, prices[name].tokens_per_round
    print(f"{name:<13}{far:>15.3f}{fast:>19.3f}")
assert prices["reject"].total_variation < 1e-12


# %%
def beginnings(distribution, n):
    """The distribution of the first n tokens."""
    found = {}
    for tokens, chance in distribution.items():
        found[tokens[:n]] = found.get(tokens[:n], 0.0) + chance
    return found


left, right = axes(2, width=9, height=3)
for (name, price), marker in zip(prices.items(), "os^DvP"):
    exact = price.total_variation < 1e-12
    left.plot(
        price.tokens_per_round, price.total_variation, marker, ms=8, mec="black",
        color=COLOURS[1 if exact else 3], label=name,
    )
left.legend(fontsize=7.5)
left.set_ylim(-0.03, None)
titles(left, "tokens per round", "total variation of three tokens")
growing = {
    name: [
        total_variation(beginnings(prices[name].found, n), beginnings(due, n))
        for n in (1, 2, 3)
    ]
    for name in ("lenient 0.8", "lenient 0.5", "typical", "top 1")
}
curves(right, [1, 2, 3], growing)
right.set(xticks=[1, 2, 3], ylim=(0, None))
titles(right, "tokens of the text", "total variation")

# %% [markdown]
# **Figure 10.4.** Left: what each judge buys (to the right is faster) and what it costs
# (higher is further from the target). Dark: `reject`, which is exact. Right: the error
# grows with the length of the text, or stays; it never shrinks.
#
# So ask what each further token per round costs. And a lossy judge need not be fast:
# those that look at the target alone also reject drafts that `reject` always keeps.
#
# ## Half-truth: "only the target's most probable token is accepted"
#
# A claim from the press: *a draft is accepted only where it is the target's most
# probable token, hence the output has the same distribution.* Notebook 4 counts how
# often accepted drafts are not. Now take the claim at its word. As a judge it is
# `agree_on_top_k(1)`: accept the target's most probable token, else draw from the
# target's row. One position, by hand, with $m$ the target's favourite: it is drafted
# with probability $d(m)$ and stays; or else it is drawn from $t$:
#
# $$P(m) = d(m) + (1 - d(m)) \, t(m) \;>\; t(m) \quad\text{wherever } d(m) > 0
# \text{ and } t(m) < 1.$$
#
# So the favourite comes out too often, and everything else too rarely:

# %%
claim = prices["top 1"]
print(claim.worst(6))
print(f"total variation {claim.total_variation:.3f}; tokens per round:")
for name in ("top 1", "reject"):
    print(f"{name:<7} {prices[name].tokens_per_round:.2f}")
assert claim.total_variation > 0.01

t, d = torch.tensor([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2]], dtype=torch.float64)
out = d * torch.tensor([1.0, 0, 0]) + (1 - d[0]) * t
[ax] = axes(width=6)
bars(ax, ["A", "B", "C"], {"target": t, "comes out by the claim": out})
ax.set_ylim(0, 1)
titles(ax, "token", "probability")
print(f"one position: accepted by the claim {d[0]:.2f}, by reject {overlap(t, d):.2f}")

# %% [markdown]
# **Figure 10.5.** The claim at one position, with target 0.5, 0.3, 0.2 and draft 0.4,
# 0.4, 0.2. It moves probability to the favourite, *and* it accepts less than `reject`
# does: wrong and slow at once.
#
# Where is the claim true? Where the target's row is one-hot: at temperature 0, and with
# coupled draws. There *most probable* and *the target's token* are the same thing, and
# all judges of this notebook agree:

# %%
cold = Sampling(temperature=0)
texts = set()
for judge in (reject_block, *judges.values()):
    asked = Request(prompt, 12, cold, judge=judge)
    texts.add(generate(target, ModelDrafter(small, cold), asked, Seeded(0)).tokens)
assert texts == {generate_alone(target, Request(prompt, 12, cold), Seeded(0)).tokens}
print(f"{len(judges) + 1} judges at temperature 0: {len(texts)} text")

# %% [markdown]
# ## Questions
#
# 1. Drafts with the ratios 2, 1/2 and 2: with which chance does `reject` keep all
#    three, and with which does block verification?
# 2. Why is a trial that fails in block verification no rejection?
# 3. Two servers, one with speculation and one without, use coupled noise and the same
#    seed. Their texts diverge after 300 tokens. What do you suspect first?
# 4. `lenient(0.5)` with a draft that is the target itself: what is accepted, and what
#    is the total variation?
#
# <details><summary>Answers</summary>
#
# 1. `reject` 1 x 1/2 x 1 = 1/2. Block: 1, then 1/2, then min(1, 1/2 x 2) = 1.
# 2. The trials are asked from the longest run of drafts to the shortest, and the first
#    that passes decides. All drafts before it stay, whatever longer runs failed.
# 3. Two tokens that all but tie, and logits that differ in the last digits: look at the
#    scores where they diverge. Next, that the noise is not the same: another position
#    (the prompt counts), another temperature.
# 4. Everything is accepted (the ratio is 2), and each token was drawn from the target's
#    row: the total variation is 0. What lenience costs depends on the draft.
#
# </details>
#
# **Exercises** (`python scripts/exercises.py next` shows them; in a notebook `from
# workbench import check`, `check(18)` grades): 18 (block verification) and 19 (coupled
# draws). Before you grade 18, let `distribution_of_one_round` judge your
# `reject_block`.

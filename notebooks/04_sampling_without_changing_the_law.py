# %% [markdown]
# # 4. Sampling without changing the law
#
# At temperature 0 the text had to be equal. With sampling there is no one text to be
# equal to; what must be equal is the *law*, the probability of every text. At the end
# of this notebook you will be able to explain
#
# - the rule that keeps or replaces a drafted token, and the proof in four lines,
# - how a whole decoder can be checked exactly, without statistics,
# - what each of the usual mistakes does to the text.
#
# Read beside it: `minispec/rejection.py`, `minispec/sampling.py`,
# `minispec/exactness/`.

# %%
import torch
from figures import axes, bars, titles
from minispec import autoregressive, speculative
from minispec.analysis import overlap
from minispec.draft import ModelDrafter
from minispec.exactness import (
    assert_same_law,
    enumerate_law,
    largest_difference,
)
from minispec.exactness.rejection import law_of_rejection, law_of_rows
from minispec.randomness import Seeded
from minispec.rejection import Verdict, acceptance_ratios, reject, residual
from minispec.sampling import Sampling, logits_to_probs
from workbench import DRAFT, TARGET, decode, encode, in_type, passages, words

# %% [markdown]
# ## The rule, on three tokens
#
# The draft drew a token $x$, to which it gives probability $d(x)$ and the target
# $t(x)$. Draw $u$ uniformly from $[0, 1)$ and keep $x$ if $u < t(x) / d(x)$; so a token
# that the target likes at least as well is always kept. (A computer's $u$ is a multiple
# of some $2^{-k}$, and 0 is one of those.) If it is refused, draw a token from the
# *residual* instead: $\max(0, t - d)$, divided by its sum. The drafts behind a refused
# one are dropped; if all are kept, one token more is drawn from the target's last row.
#
# Think of a vocabulary of three tokens. The draft would draw B half the time; the
# target wants A most.

# %%
names = ["A", "B", "C"]
target_row = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
draft_row = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)

kept = torch.minimum(target_row, draft_row)
left_out = (target_row - draft_row).clamp(min=0)

print(f"{'':<28}{'A':>6}{'B':>6}{'C':>6}{'sum':>8}")
for name, row in [
    ("draft", draft_row),
    ("target", target_row),
    ("chance to keep if drafted", (target_row / draft_row).clamp(max=1)),
    ("drafted and kept", kept),
    ("residual, normalised", residual(target_row, draft_row)),
    ("refused, then drawn", (1 - kept.sum()) * residual(target_row, draft_row)),
]:
    total = "" if name.startswith("chance") else f"{row.sum():>8.2f}"
    print(f"{name:<28}" + "".join(f"{value:>6.2f}" for value in row) + total)

# %%
left, middle, right = axes(3, width=8, height=2.6)
bars(left, names, {"target": target_row, "draft": draft_row})
titles(left, "token", "probability", "1. what each model wants")
bars(middle, names, {"drafted and kept": kept, "drafted, refused": draft_row - kept})
titles(middle, "token", "probability", "2. keep with target / draft")
right.bar(names, kept, color="0.25", label="kept")
right.bar(
    names, left_out, bottom=kept, color="0.8", hatch="///", edgecolor="black",
    label="from the residual",
)
right.grid(axis="x", visible=False)
right.legend()
titles(right, "token", "probability", "3. the sum is the target")
for ax in (left, middle, right):
    ax.set_ylim(0, 0.85)

# %% [markdown]
# **Figure 4.1.** Left: the two rows of probabilities. Middle: where the draft gives a
# token more than the target wants (B, C), part of its drafts is refused. Right: exactly
# what was refused is given to the tokens of which the target wanted more (A).
#
# ## The proof in four lines
#
# Token $x$ comes out because it was drafted and kept, or because something was refused
# and $x$ was drawn from the residual:
#
# $$\begin{aligned}
# \text{kept:} \quad & d(x) \min\!\left(1, \tfrac{t(x)}{d(x)}\right)
#   = \min(t(x), d(x)) \\
# \text{refused:} \quad & 1 - \textstyle\sum_y \min(t(y), d(y))
#   = \textstyle\sum_y \max(0, t(y) - d(y)) \\
# \text{replaced:} \quad & \text{refused} \times
#   \frac{\max(0, t(x) - d(x))}{\sum_y \max(0, t(y) - d(y))} = \max(0, t(x) - d(x)) \\
# \text{together:} \quad & \min(t(x), d(x)) + \max(0, t(x) - d(x)) = t(x)
# \end{aligned}$$
#
# (The second line: both rows sum to 1, and $t - \min(t, d) = \max(0, t - d)$. The third
# is not needed where the rows are equal, since nothing is refused there.) Nothing was
# assumed of $d$ but that the token was really drawn from it. With several drafts
# the same holds for each in turn: the next is looked at only if all before it were
# kept, and its two rows are those after just these tokens. (The papers call the rows
# $p$ and $q$, not all of them the same way round.)
#
# ## The proof by enumeration
#
# A proof on paper says nothing about code. But in this code all chance enters through
# one object, which is asked only two things: draw a token from this row; how many of
# these drafts are kept, each with its chance? `exactness/` puts another object in its
# place, one that gives every possible answer in turn: one run of the production code
# for each sequence of answers, a *branch*. The chances of the answers are multiplied
# along a branch and added up over the branches that write the same text. (So no $u$ is
# drawn: a comparison has two outcomes, kept or refused, and the chance of each is
# known.)
#
# First for a round of two drafts, rows differing by position. A round may commit one,
# two or three tokens; what it leaves open is drawn from the target's next rows, so that
# all outcomes are three tokens long and can be compared:

# %%
target_rows = torch.stack([target_row, target_row.flip(0), target_row.roll(1)])
draft_rows = torch.stack([draft_row, draft_row.roll(1)])

law = law_of_rejection(reject, target_rows, draft_rows)
should_be = law_of_rows(target_rows)  # three tokens, one from each row of the target
assert_same_law(law, should_be)
print(f"{len(should_be)} sequences of three tokens")
print(f"largest difference: {largest_difference(law, should_be):.1e}")

# %% [markdown]
# Then for everything at once: the shipped pair itself in float64, its caches, rollbacks
# and all, three tokens after a prompt. The target samples from its two most likely
# tokens, to keep the number of texts small; the draft likewise, at another temperature.

# %%
target, small = in_type(TARGET, torch.float64), in_type(DRAFT, torch.float64)
prompt = encode("PROSPERO:\nNow my charms are all")
two = Sampling(top_k=2)


def alone(randomness):
    """Three tokens by the target alone."""
    return autoregressive.generate(target, prompt, 3, randomness, two).tokens


def with_draft(randomness):
    """Three tokens by rounds of two drafts."""
    drafter = ModelDrafter(small, Sampling(temperature=1.5, top_k=2))
    return speculative.generate(
        target, drafter, prompt, 2, 3, randomness, two
    ).tokens


expected, found = enumerate_law(alone), enumerate_law(with_draft)
difference = largest_difference(found.law, expected.law)
print(f"{len(expected.law)} texts; {found.n_branches} branches of the speculative loop")
print("   alone  with draft")
for tokens, probability in sorted(expected.law.items(), key=lambda item: -item[1]):
    print(f"{probability:.6f}    {found.law[tokens]:.6f}  {words(tokens)}")
print(f"largest difference: {difference:.1e}")
assert difference < 1e-12

# %% [markdown]
# ## What the usual mistakes do
#
# A sampler is a few lines, so each mistake is written out here, and its law enumerated.
# Some are slips of the pen. A softmax of $\max(0, t - d)$, where it should be divided
# by its sum, stood in `transformers` until [pull request
# 28508](https://github.com/huggingface/transformers/pull/28508); and drafts drawn from
# another row than the $d$ that the sampler is given are a repeated bug report.


# %%
def keep_if(ratio, replacement):
    """A rejection sampler for one draft, from a ratio and a row to replace from."""

    def sampler(tokens, draft_probs, target_probs, randomness):
        ratios = ratio(acceptance_ratios(tokens, draft_probs, target_probs))
        if randomness.leading_accepts(ratios):  # 1 or 0: how many are kept
            return Verdict(1, randomness.sample(target_probs[1]))
        row = replacement(target_probs[0], draft_probs[0])
        return Verdict(0, randomness.sample(row))

    return sampler


def as_it_is(ratios):
    return ratios


top_two = torch.tensor([0, 5 / 8, 3 / 8], dtype=torch.float64)  # the draft's best two
argmax = torch.tensor([0.0, 1, 0], dtype=torch.float64)
mistakes = {
    "the rule itself": (keep_if(as_it_is, residual), draft_row),
    "keep only if the\ntarget likes it more": (
        keep_if(lambda ratios: (ratios >= 1).double(), residual), draft_row
    ),
    "ratio upside down": (keep_if(lambda ratios: 1 / ratios, residual), draft_row),
    "replace from the\ntarget's whole row": (
        keep_if(as_it_is, lambda t, d: t), draft_row
    ),
    "softmax of the\nclamped difference": (
        keep_if(as_it_is, lambda t, d: (t - d).clamp(min=0).softmax(0)), draft_row
    ),
    "draft truncated,\nwhole row declared": (keep_if(as_it_is, residual), top_two),
    "draft takes the best,\nwhole row declared": (keep_if(as_it_is, residual), argmax),
    "draft truncated,\nand says so": (reject, None),
}


def first_token(sampler, drawn_from):  # -> [3]
    """The law of the first token that comes out."""
    declared = top_two if drawn_from is None else draft_row
    source = None if drawn_from is None else drawn_from[None]
    law = law_of_rejection(sampler, target_rows[:2], declared[None], source)
    row = torch.zeros(3, dtype=torch.float64)
    for tokens, probability in law.items():
        row[tokens[0]] += probability
    return row


laws = {name: first_token(*case) for name, case in mistakes.items()}

# %%
panels = axes(4, width=9, height=4.6, rows=2)
for ax, (name, row) in zip(panels, laws.items()):
    bars(ax, names, {"target": target_row, "comes out": row})
    titles(ax, "token", "probability", name)
    off = (row - target_row).abs().max()
    ax.text(2.4, 0.72, f"off by {off:.2f}", ha="right")
    ax.set(ylim=(0, 1.6), yticks=[0, 0.5, 1])
    if ax is not panels[0]:
        ax.get_legend().remove()

# %% [markdown]
# **Figure 4.2.** The law of the token that comes out (hatched) against the target's
# (dark), for the rule, six mistakes, and one thing that looks like a mistake and is
# none. *Off by* is the largest difference of a bar from its neighbour. *Declared* is
# the row that the sampler is told the draft used. Every mistake moves mass. None of
# them crashes, and the text still looks like text, which is why they survive reviews:
# only the law shows them.

# %%
for name in ("the rule itself", "draft truncated,\nand says so"):
    assert (laws[name] - target_row).abs().max() < 1e-12
print("the two that are right are right to 1e-12")

# %% [markdown]
# ## Half-truth: "the draft must not truncate"
#
# Top-k keeps the k most likely tokens of a row, top-p the fewest that together reach
# mass p; both *truncate* it. A temperature $T$ raises every probability to the power
# $1/T$. Afterwards the row is normalised again. The last panel settles it for one row:
# the draft may use any of these, or always take its best token, *as long as the row it
# reports is the row it drew from*. What changes is only how often its tokens are kept.
# (Truncating the *target* changes the text, but then that is the text that was asked
# for.)

# %%
drafts = {
    "its own row": draft_row,
    "top 2": top_two,
    "temperature 0.5": draft_row**2 / (draft_row**2).sum(),
    "its best token": argmax,
    "always C": torch.tensor([0.0, 0, 1], dtype=torch.float64),
}
for name, row in drafts.items():
    law = law_of_rejection(reject, target_rows[:2], row[None])
    assert_same_law(law, law_of_rows(target_rows[:2]))
    print(f"{name:<18} kept with chance {overlap(target_row, row):.2f}, the same law")

# %% [markdown]
# ## Real rows
#
# The overlap $\sum_x \min(t(x), d(x))$ is the chance that a draft is kept. Here are
# real rows, in the middle of a line that neither model has seen:

# %%
text = encode(passages()[8])[:29]
rows = {
    name: logits_to_probs(model(text[None])[0, -1:].double(), Sampling(), text)[0]
    for name, model in [("target", TARGET), ("draft", DRAFT)]
}
best = rows["target"].topk(10).indices.tolist()
[ax] = axes(width=8.5)
bars(ax, [words([i]) for i in best], {k: row[best] for k, row in rows.items()})
titles(ax, "next token", "probability")
print(f"... {decode(text[-14:])!r}")
print(f"overlap of the whole rows: {overlap(rows['target'], rows['draft']):.2f}")

# %% [markdown]
# **Figure 4.3.** The target's ten most likely next tokens and what the draft gives
# them. A draft of `' me'` is kept for certain, one of `' the'` about every second time.
#
# ## Half-truth: "accepted means it was the most likely token"
#
# True at temperature 0. With sampling a token is kept with chance target / draft: an
# unlikely token that the draft finds just as unlikely is kept for certain. Counted on
# the shipped pair, at temperature 1:

# %%
start = encode("PROSPERO:\nNow my charms are all")
written = speculative.generate(
    TARGET, ModelDrafter(DRAFT), start, 4, 300, Seeded(2)
)
whole = torch.tensor([*start.tolist(), *written.tokens])
after_each = TARGET(whole[None])[0].softmax(dim=-1)  # [n, V]
favourites, chances = after_each.argmax(dim=-1), after_each.amax(dim=-1)
position, accepted, unlikely = len(start), 0, []
for round in written.rounds:
    for i in range(round.n_accepted):
        accepted += 1
        if favourites[position + i - 1] != round.committed[i]:
            unlikely.append(round.drafted[i])
    position += len(round.committed)
print(f"{accepted} drafts were accepted")
print(f"{len(unlikely)} of them were not the target's most likely token, whose own")
print(f"probability is only {chances[len(start) - 1 :].mean():.2f} on average")
rarest = min(unlikely, key=lambda drafted: drafted.target_prob)
print(
    f"the rarest, {words([rarest.token])}, had probability {rarest.target_prob:.1e} "
    f"(and {rarest.draft_prob:.1e} under the draft)"
)
assert unlikely

# %% [markdown]
# ## Questions
#
# 1. Why is the chance of keeping a draft $\sum_x \min(t(x), d(x))$? When is it 1?
# 2. The draft always proposes its best token, B, and reports a one-hot row. With which
#    chance is it kept, and what is the residual?
# 3. Why must the comparison be *strict*, $u < t(x) / d(x)$, when $u$ is drawn from
#    $[0, 1)$?
#
# <details><summary>Answers</summary>
#
# 1. Sum the first line of the proof over $x$. It is 1 exactly where the two rows are
#    equal.
# 2. With $t(B) / 1 = 0.3$. The residual is the target without B, normalised: A 6/7, C
#    1/7.
# 3. A token that the target gives probability 0 has ratio 0. With $\le$ it would pass
#    whenever $u$ happens to be exactly 0, which floating-point generators do return.
#
# </details>
#
# **Exercises** (the README says how to start): 1 (logits to probabilities), 7
# (acceptance ratios), 8 (the residual).

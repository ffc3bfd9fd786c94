# %% [markdown]
# # 4. Sampling without changing the distribution
#
# At temperature 0 the text had to be equal. With sampling there is no one text to be
# equal to; what must be equal is the *distribution*, the probability of every text. At
# the end of this notebook you will be able to explain
#
# - the rule that accepts or replaces a drafted token, and the proof in four lines,
# - how a whole decoder can be checked exactly, without statistics,
# - what each of the usual mistakes does to the text.
#
# Read beside it: `minispec/core/rejection.py`, `minispec/core/sampling.py`,
# `minispec/exactness/`.

# %%
import sys

import minispec
import torch

if (folder := f"{minispec.__path__[0]}/../notebooks") not in sys.path:
    sys.path.append(folder)  # to run in any working directory

from figures import BARS, axes, bars, titles, tree
from minispec import (
    ModelDrafter,
    Request,
    Sampling,
    Seeded,
    generate,
    generate_alone,
    reject,
    speculative_rounds,
)
from minispec.core.analysis import overlap
from minispec.core.rejection import Verdict, residual
from minispec.core.sampling import logits_to_probs
from minispec.exactness import (
    assert_same_distribution,
    enumerate_outputs,
    largest_difference,
)
from minispec.exactness.one_round import (
    distribution_of_one_round,
    distribution_of_rows,
)
from workbench import DRAFT, TARGET, decode, encode, in_type, passages, words

# %% [markdown]
# ## The rule, on three tokens
#
# The draft drew a token $x$, to which it gives probability $d(x)$ and the target
# $t(x)$. Draw $u$ uniformly from $[0, 1)$ and accept $x$ if $u < t(x) / d(x)$; so a
# token that the target likes at least as well is always accepted. (A computer's $u$ is
# a multiple of some $2^{-k}$, and 0 is one of those.) If $x$ is rejected, draw a token
# from the *residual* instead: $\max(0, t - d)$, divided by its sum. Drafts after the
# rejected one are dropped; if all are accepted, one token more is drawn from the
# target's last row. These are part 3 and the end of the listing in notebook 3, and
# `reject` in the package.
#
# Think of a vocabulary of three tokens. The draft would draw B half the time; the
# target wants A most.
#
# **Predict, then run:** how often will a draft be rejected?

# %%
names = ["A", "B", "C"]
target_row = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
draft_row = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)

accepted = torch.minimum(target_row, draft_row)
left_out = (target_row - draft_row).clamp(min=0)

print(f"{'':<28}{'A':>6}{'B':>6}{'C':>6}{'sum':>8}")
for name, row in [
    ("draft", draft_row),
    ("target", target_row),
    ("accepted if drafted", (target_row / draft_row).clamp(max=1)),
    ("drafted and accepted", accepted),
    ("residual", residual(target_row, draft_row)),
    ("rejected, then drawn", (1 - accepted.sum()) * residual(target_row, draft_row)),
]:
    total = "" if name == "accepted if drafted" else f"{row.sum():>8.2f}"
    print(f"{name:<28}" + "".join(f"{value:>6.2f}" for value in row) + total)

# %%
left, middle, right = axes(3, width=8, height=2.6)
bars(left, names, {"target": target_row, "draft": draft_row})
titles(left, "token", "probability", "1. what each model wants")
bars(middle, names, {"accepted": accepted, "rejected": draft_row - accepted})
titles(middle, "token", "probability", "2. drafts: accept with target / draft")
for part, below, (colour, hatch), name in [
    (accepted, None, BARS[0], "accepted"),
    (left_out, accepted, BARS[1], "from the residual"),
]:
    right.bar(
        names, part, bottom=below, color=colour, hatch=hatch, edgecolor="black",
        label=name,
    )
right.grid(axis="x", visible=False)
right.legend()
titles(right, "token", "probability", "3. the sum is the target")
for ax in (left, middle, right):
    ax.set_ylim(0, 0.85)

# %% [markdown]
# **Figure 4.1.** Left: the two rows of probabilities. Middle: where the draft gives a
# token more than the target wants (B, C), part of its drafts is rejected. Right: just
# what was rejected goes to the tokens of which the target wanted more (A).
#
# ## The proof in four lines
#
# Token $x$ comes out because it was drafted and accepted, or because something was
# rejected and $x$ was drawn from the residual:
#
# $$\begin{aligned}
# \text{accepted:} \quad & d(x) \min\!\left(1, \tfrac{t(x)}{d(x)}\right)
#   = \min(t(x), d(x)) \\
# \text{rejected:} \quad & 1 - \textstyle\sum_y \min(t(y), d(y))
#   = \textstyle\sum_y \max(0, t(y) - d(y)) \\
# \text{replaced:} \quad & \text{rejected} \times
#   \frac{\max(0, t(x) - d(x))}{\sum_y \max(0, t(y) - d(y))} = \max(0, t(x) - d(x)) \\
# \text{together:} \quad & \min(t(x), d(x)) + \max(0, t(x) - d(x)) = t(x)
# \end{aligned}$$
#
# (The second line: both rows sum to 1, and $t - \min(t, d) = \max(0, t - d)$. Where the
# rows are equal nothing is rejected, and the third line is not needed.) Nothing was
# assumed of $d$ but that the token was really drawn from it. (The papers call the rows
# $p$ and $q$, not all of them the same way round.)
#
# ## From one draft to a whole text
#
# That was one position. The rest is induction over positions. Suppose that the first
# $i$ tokens come out with the target's probability, and look at the texts that begin
# with some particular tokens $x_1 \ldots x_i$. How did they come about? Either all $i$
# are accepted drafts of a round that goes on. Then draft $i + 1$ is judged by
# $t(\cdot \mid x_1 \ldots x_i)$ and $d(\cdot \mid x_1 \ldots x_i)$, since the text
# before it is just what the draft had drafted, and the four lines give
# $t(\cdot \mid x_1 \ldots x_i)$. Or all drafts were accepted and this is the bonus,
# drawn from $t(\cdot \mid x_1 \ldots x_i)$. Or the round has ended with a replaced
# token, and the next round begins with the same two rows. Which of these it is depends
# on earlier draws only, and each gives the next token the same distribution, that of
# the target after $x_1 \ldots x_i$. So the first $i + 1$ tokens come out with the
# target's probability, too. For this the drafts *after* a rejection must be dropped:
# they were drafted, and scored, after a token that is not in the text.
#
# ## The tree of chance
#
# A proof on paper says nothing about code. But in this code all chance comes from one
# object, which is asked only two things: draw a token from this row (`sample`); is this
# draft accepted, at this chance (`accept`)? Put another object in its place, one that
# takes its answers from a list. Run the code once for each list of answers: every run
# is a *branch* of the tree of chance, and its probability is the product of the chances
# of its answers. Add up the branches that write the same text. Here is the trick in
# twenty lines:


# %%
class Answers:
    """Chance from a script; at a new question it takes the first possible answer."""

    def __init__(self, script, todo):
        self.script, self.todo, self.path, self.probability = script, todo, (), 1.0

    def choose(self, options):  # (name, value, chance) of each
        options = [option for option in options if option[2] > 0]
        asked = len(self.path)
        if asked == len(self.script):  # a new question: its other answers come later
            others = reversed(range(1, len(options)))
            self.todo += [[*self.script, other] for other in others]
            self.script = [*self.script, 0]
        name, value, chance = options[self.script[asked]]
        self.path += (f"{name} {chance:.2f}",)
        self.probability *= chance
        return value

    def sample(self, probs):
        return self.choose(list(zip(names, range(len(probs)), probs.tolist())))

    def accept(self, chance):
        yes = min(1.0, chance)
        return self.choose([("accept", True, yes), ("reject", False, 1 - yes)])


def every_branch(run):
    """Each output of `run`, with the answers that led to it."""
    todo = [[]]
    while todo:
        answers = Answers(todo.pop(), todo)
        yield run(answers), answers


# %% [markdown]
# Two tokens of text over a vocabulary of A and B, written with one draft. What the
# target wants second depends on the first token:

# %%
first, drafted = torch.tensor([[0.7, 0.3], [0.4, 0.6]], dtype=torch.float64)
second = torch.tensor([[0.2, 0.8], [0.5, 0.5]], dtype=torch.float64)  # after A, after B


def two_tokens(chance):
    """A round with one draft, and if it commits only one token, a plain step."""
    token = chance.sample(drafted)
    rows = torch.stack([first, second[token]])
    verdict = reject(torch.tensor([token]), drafted[None], rows, chance)
    if verdict.n_accepted:
        return token, verdict.next_token
    return verdict.next_token, chance.sample(second[verdict.next_token])


leaves, sums = {}, dict.fromkeys(["AA", "AB", "BA", "BB"], 0.0)
for output, answers in every_branch(two_tokens):
    text = "".join(names[token] for token in output)
    sums[text] += answers.probability
    leaves[answers.path] = f"{text}, in all {answers.probability:.2f}"

[ax] = axes(width=7.2, height=2.6)
tree(ax, leaves)
print("text   sum of its branches   the target alone")
for text, found in sums.items():
    one, two = (names.index(letter) for letter in text)
    print(f"{text:<14}{found:.3f}{first[one] * second[one][two]:>19.3f}")

# %% [markdown]
# **Figure 4.2.** All the ways through two tokens. From left to right: the draft's
# token, accepted or not, and what is drawn then: after *accept* the bonus, after
# *reject* a token from the residual (which is all A here) and then one from the
# target's row after A. At the end the text, and the product along the branch. The text
# AA is the end of two branches.
#
# ## The proof by enumeration
#
# `exactness/` does this with the production code. First for a round of two drafts over
# A, B and C, whose rows differ by position. A round may commit one, two or three
# tokens; what it leaves open is drawn from the target's next rows, so that all outcomes
# are three tokens long and can be compared:

# %%
target_rows = torch.stack([target_row, target_row.flip(0), target_row.roll(1)])
draft_rows = torch.stack([draft_row, draft_row.roll(1)])

found = distribution_of_one_round(reject, target_rows, draft_rows)
expected = distribution_of_rows(target_rows)  # three tokens, one from each target row
assert_same_distribution(found, expected)
print(f"{len(expected)} sequences of three tokens")
print(f"largest difference: {largest_difference(found, expected):.1e}")

# %% [markdown]
# Then for everything at once: the shipped pair itself in float64, its caches, rollbacks
# and all, three tokens after a prompt. The target samples from its two most likely
# tokens, to keep the number of texts small; the draft likewise, at another temperature.

# %%
target, small = in_type(TARGET, torch.float64), in_type(DRAFT, torch.float64)
prompt = encode("PROSPERO:\nNow my charms are all")
request = Request(prompt, 3, Sampling(top_k=2), gamma=2)


def alone(randomness):
    """Three tokens by the target alone."""
    return generate_alone(target, request, randomness).tokens


def with_draft(randomness):
    """Three tokens by rounds of two drafts."""
    drafter = ModelDrafter(small, Sampling(temperature=1.5, top_k=2))
    return generate(target, drafter, request, randomness).tokens


expected, found = enumerate_outputs(alone), enumerate_outputs(with_draft)
difference = largest_difference(found.distribution, expected.distribution)
print(f"{len(expected.distribution)} texts; {found.n_branches} branches with a draft")
print("   alone  with draft")
ranked = sorted(expected.distribution.items(), key=lambda item: -item[1])
for tokens, probability in ranked:
    print(f"{probability:.6f}    {found.distribution[tokens]:.6f}  {words(tokens)}")
print(f"largest difference: {difference:.1e}")
assert difference < 1e-12

# %% [markdown]
# ## What the usual mistakes do
#
# A sampler is a few lines, so each mistake is written out here, and the distribution of
# its first token enumerated. Some are slips of the pen. A softmax of $\max(0, t - d)$,
# where it should be divided by its sum, stood in `transformers` until [pull request
# 28508](https://github.com/huggingface/transformers/pull/28508); and drafts drawn from
# another row than the $d$ that the sampler is given are a repeated bug report.
#
# **Predict, then run:** someone accepts a draft only where it is the target's most
# probable token. What comes out?


# %%
def sampler_with(ratio, replacement):
    """A rejection sampler for one draft, from a ratio and a row to replace from."""

    def sampler(tokens, draft_probs, target_probs, randomness):
        t, d, x = target_probs[0], draft_probs[0], int(tokens[0])
        if randomness.accept(float(ratio(t, d, x))):
            return Verdict(1, randomness.sample(target_probs[1]))
        return Verdict(0, randomness.sample(replacement(t, d)))

    return sampler


def right(t, d, x):
    return t[x] / d[x]


top_two = torch.tensor([0, 5 / 8, 3 / 8], dtype=torch.float64)  # the draft's best two
argmax = torch.tensor([0.0, 1, 0], dtype=torch.float64)
# name -> the sampler, what the draft declares, what it really draws from
cases = {
    "the rule itself": (sampler_with(right, residual), draft_row, draft_row),
    "accept only the target's\nmost probable token": (
        sampler_with(lambda t, d, x: x == t.argmax(), residual), draft_row, draft_row
    ),
    "ratio upside down": (
        sampler_with(lambda t, d, x: d[x] / t[x], residual), draft_row, draft_row
    ),
    "replace from the\ntarget's whole row": (
        sampler_with(right, lambda t, d: t), draft_row, draft_row
    ),
    "softmax of the\nclamped difference": (
        sampler_with(right, lambda t, d: (t - d).clamp(min=0).softmax(0)),
        draft_row, draft_row,
    ),
    "draft truncated,\nwhole row declared": (reject, draft_row, top_two),
    "draft takes the best,\nwhole row declared": (reject, draft_row, argmax),
    "draft truncated,\nand says so": (reject, top_two, top_two),
}


def first_token(sampler, declared, drawn_from):  # -> [3]
    """The distribution of the first token that comes out."""
    outputs = distribution_of_one_round(
        sampler, target_rows[:2], declared[None], drawn_from[None]
    )
    row = torch.zeros(3, dtype=torch.float64)
    for tokens, probability in outputs.items():
        row[tokens[0]] += probability
    return row


comes_out = {name: first_token(*case) for name, case in cases.items()}

# %%
panels = axes(4, width=9, height=4.6, rows=2)
for ax, (name, row) in zip(panels, comes_out.items()):
    bars(ax, names, {"target": target_row, "comes out": row})
    titles(ax, "token", "probability", name)
    off = (row - target_row).abs().max()
    ax.text(2.4, 0.72, f"off by {off:.2f}", ha="right")
    ax.set(ylim=(0, 1.6), yticks=[0, 0.5, 1])
    if ax is not panels[0]:
        ax.get_legend().remove()

# %% [markdown]
# **Figure 4.3.** The distribution of the token that comes out (hatched) and the
# target's (dark), for the rule, six mistakes, and one thing that looks like a mistake
# and is right. *Off by* is the largest difference between a bar and its neighbour.
# *Declared* is the row that the sampler is told the draft used. Every mistake moves
# probability. None of them crashes, and the text still looks like text, which is why
# they survive reviews: only the distribution shows them.

# %%
for name in ("the rule itself", "draft truncated,\nand says so"):
    assert (comes_out[name] - target_row).abs().max() < 1e-12
print("the two that are right are right to 1e-12")

# %% [markdown]
# ## Half-truth: "the draft must not truncate"
#
# Top-k keeps the k most likely tokens of a row, top-p the fewest that together reach
# mass p; both *truncate* it. A temperature $T$ raises every probability to the power
# $1/T$. Afterwards the row is normalised again. The last panel settles it for one row:
# the draft may use any of these, or always take its best token, *as long as the row it
# reports is the row it drew from*. What changes is only how often its tokens are
# accepted. (Truncating the *target* changes the text, but then that is the text that
# was asked for.)

# %%
drafts = {
    "its own row": draft_row,
    "top 2": top_two,
    "temperature 0.5": draft_row**2 / (draft_row**2).sum(),
    "its best token": argmax,
    "always C": torch.tensor([0.0, 0, 1], dtype=torch.float64),
}
for name, row in drafts.items():
    found = distribution_of_one_round(reject, target_rows[:2], row[None])
    assert_same_distribution(found, distribution_of_rows(target_rows[:2]))
    chance = overlap(target_row, row)
    print(f"{name:<18} accepted with probability {chance:.2f}, the same distribution")

# %% [markdown]
# ## Real rows
#
# The overlap $\sum_x \min(t(x), d(x))$ is the probability that a draft is accepted.
# Here are real rows, in the middle of a line that neither model has seen:

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
# **Figure 4.4.** The target's ten most likely next tokens and what the draft gives
# them. A draft of `' me'` is accepted for certain, one of `' the'` about every second
# time.
#
# And three real rounds, at temperature 1. (A ratio above 1 is accepted for certain; the
# drafts after a rejection are never judged.)

# %%
start = encode("PROSPERO:\nNow my charms are all")
rounds = speculative_rounds(TARGET, ModelDrafter(DRAFT), Request(start, 20), Seeded(2))
print(f"{'':<16}{'draft':>8}{'target':>8}{'ratio':>8}")
for one, _ in zip(rounds, range(3)):
    for i, token in enumerate(one.tokens):
        d, t = (float(rows[i][token]) for rows in one.rows)
        fate = "accepted" if i < one.n_accepted else "rejected"
        fate = fate if i < one.judged else "not judged"
        print(f"{words([token]):<16}{d:>8.3f}{t:>8.3f}{t / d:>8.2f}  {fate}")
    print(f"{words(one.committed[-1:]):<42}{one.extra}\n")

# %% [markdown]
# ## Half-truth: "accepted means it was the most probable token"
#
# Explanations in the press often say so: a draft is accepted only where it is the
# target's most probable token, *hence* the distribution stays the same. At temperature
# 0 that is true. With sampling it is wrong twice. It is not the rule: an unlikely token
# that the draft finds just as unlikely is accepted for certain. And if it were the
# rule, the distribution would not stay the same: in the second panel of figure 4.3
# *every* token that comes out is the target's most probable one. Counted on the shipped
# pair, at temperature 1:

# %%
accepted, unlikely, highest = 0, [], []
rounds = speculative_rounds(TARGET, ModelDrafter(DRAFT), Request(start, 300), Seeded(2))
for one in rounds:
    highest += one.rows.target_probs.amax(dim=-1)[: len(one.committed)].tolist()
    for i, token in enumerate(one.tokens[: one.n_accepted]):
        accepted += 1
        if token != one.rows.target_probs[i].argmax():
            d, t = (float(rows[i][token]) for rows in one.rows)
            unlikely.append((t, d, token))
print(f"{accepted} drafts were accepted")
print(f"{len(unlikely)} of them were not the target's most probable token, whose own")
print(f"probability is only {sum(highest) / len(highest):.2f} on average")
t, d, token = min(unlikely)
print(f"the rarest, {words([token])}: target {t:.1e}, draft {d:.1e}")
assert unlikely

# %% [markdown]
# ## Questions
#
# 1. Why is the probability that a draft is accepted $\sum_x \min(t(x), d(x))$? When is
#    it 1?
# 2. The draft always proposes its best token, B, and reports a one-hot row. With which
#    probability is it accepted, and what is the residual?
# 3. Why must the comparison be *strict*, $u < t(x) / d(x)$, when $u$ is drawn from
#    $[0, 1)$?
# 4. In figure 4.2, why does the branch through *reject* go on with the target's row
#    after A, and not with the row after B that `reject` was given?
#
# <details><summary>Answers</summary>
#
# 1. Sum the first line of the proof over $x$. It is 1 exactly where the two rows are
#    equal.
# 2. With $t(B) / 1 = 0.3$. The residual is the target without B, normalised: A 6/7, C
#    1/7.
# 3. A token that the target gives probability 0 has ratio 0. With $\le$ it would pass
#    whenever $u$ happens to be exactly 0, which floating-point generators do return.
# 4. B was rejected and is not in the text; A is. The row after B belongs to a text that
#    has not come about.
#
# </details>
#
# **Exercises** (`python scripts/exercises.py next` shows them; in a notebook `from
# workbench import check`, `check(7)` grades): 7 (acceptance), 8 (rejection and the
# residual); then 9 (rollback), 10 (one round) and 11 (the loop with EOS, the token that
# ends a text, and budget), which put notebooks 2 to 4 together.

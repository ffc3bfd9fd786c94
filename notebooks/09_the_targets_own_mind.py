# %% [markdown]
# # 9. Drafting from the target's own mind
#
# The target has already worked on the text. A drafter can read its hidden states
# instead of starting from nothing. At the end of this notebook you will be able to
# explain
#
# - what early exit, Medusa, EAGLE, multi-token prediction and block diffusion read, and
#   what each of their drafts knows,
# - why drafts that are made in parallel are accepted ever less often, position by
#   position, and drafts that are made one after another are not,
# - why greedy text has less of this difference to show,
# - why the drafter with the most accepted drafts need not be the fastest.
#
# Read beside it: `minispec/drafters/`, in the order heads, medusa, mtp, early_exit,
# eagle, block_diffusion. Notebooks 4 to 6 come before this one.

# %%
import re
import sys
from functools import partial
from statistics import mean, median

import minispec
import torch

if (folder := f"{minispec.__path__[0]}/../notebooks") not in sys.path:
    sys.path.append(folder)  # to run in any working directory

from figures import COLOURS, axes, bars, curves, slots, titles
from minispec import (
    Generation,
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
from minispec.commands.costs import Timed
from minispec.core.analysis import overlap, round_speedup
from minispec.drafters.suffix import SuffixDrafter
from minispec.exactness import enumerate_outputs, largest_difference
from minispec.files.head import load_head
from minispec.files.pair import SHIPPED
from workbench import (
    DRAFT,
    TARGET,
    by_turns,
    encode,
    in_type,
    milliseconds,
    passages,
    words,
)

greedy, warm = Sampling(temperature=0), Sampling()

# %% [markdown]
# ## What is in the target's mind
#
# For each position the target keeps a vector, the *hidden state*, and each of its 12
# layers adds something to it. After the last layer it goes through `ln_f` and the
# output matrix, and becomes the distribution of the next token. What if it went there
# earlier? Along 200 tokens that the target wrote itself, compare what the state after
# each layer says with what the target says in the end:

# %%
prompt = encode(passages()[0])
own = generate_alone(TARGET, Request(prompt, 200), Seeded(1)).tokens
text = torch.cat([prompt, torch.tensor(own)])
cache = TARGET.new_cache()
for layer in range(12):
    cache.tap(layer)  # keep its hidden states beside keys and values
rows = TARGET(text[None], cache)[0].softmax(dim=-1)  # [n, V]


def said_by(hidden):  # [1, n, E] -> [n, V]
    """What the target's own head makes of some hidden states."""
    return TARGET.head(TARGET.ln_f(hidden))[0].softmax(dim=-1)


states = [cache.taps[layer][:, : len(text)] for layer in range(12)]
bare = [float(overlap(rows, said_by(state)).mean()) for state in states]
exit_head = load_head(SHIPPED / "early-exit", TARGET)
adapted = float(overlap(rows, said_by(exit_head(states[0]))).mean())
[ax] = axes(width=6)
ax.plot(range(1, 13), bare, "o-", color=COLOURS[1], label="straight to the head")
ax.plot([1], [adapted], "*", color=COLOURS[2], mec="black", ms=13, label="with adapter")
ax.set(ylim=(0, 1.05), xticks=range(1, 13))
ax.legend(loc="lower right")
titles(ax, "layers", "overlap with the target")
print(f"after 1 layer {bare[0]:.2f}, with the shipped adapter {adapted:.2f}")

# %% [markdown]
# **Figure 9.1.** How much of the target's distribution each layer knows already: the
# overlap $\sum_x \min(t(x), d(x))$, which is the probability that a draft from it is
# accepted. Layer 1 writes for layer 2 and not for the head. A small trained adapter
# translates, and its overlap (star) is far higher.
#
# That is **early exit**: the lower layers draft, with the target's own cache, and the
# upper ones verify. No layer is computed twice.
#
# The other drafters start from the last layer. There the state of position $i$ has all
# that the target knows about token $i + 1$. But the newest committed token has not been
# through the target yet:

# %%
prefix = text[:45]
cache = TARGET.new_cache()
cache.tap(11)
TARGET(prefix[None, :-1], cache)  # as after a round: all but the last token
newest = cache.taps[11][:, cache.length - 1 : cache.length]
row = said_by(newest)[0]
print(f"prefix: {len(prefix)} tokens, {cache.length} of them in the cache")
print(f"the newest state guesses {words([row.argmax()])} for the next token,")
print(f"which has been drawn meanwhile: {words(prefix[-1:])}")

# %% [markdown]
# So the newest state predicts a token that has since been drawn, and the drafts must
# follow that token. Which token it was is chance, and the state cannot know it. The
# methods differ in what they do about it:
#
# - **Medusa**: one small matrix for each position ahead, all on the newest state. No
#   draft is told any token.
# - **Block diffusion** (DFlash): one pass over the last token and a block of masks. All
#   drafts are told the last token. None is told the drafts before it.
# - **EAGLE**: guess the next state from this state *and the token that was drawn*, let
#   the target's head read the guess, draw, and go on from there. (EAGLE-3 reads a low,
#   a middle and a high layer, which here is the last.)
# - **MTP** (multi-token prediction): the same chain, with a module of its own for each
#   position.
#
# What does the third draft of a round know?

# %%
KNOWS = {
    "Medusa": "yes no no", "block diffusion": "yes yes no", "EAGLE, MTP": "yes yes yes",
    "early exit": "lower yes yes", "draft model": "no yes yes",
}
PARTS = "states", "last token", "drafts before"
drawn = {}
for name, answers in KNOWS.items():
    kinds = {"yes": "held", "no": "stale", "lower": "drafted"}
    drawn[name] = [
        (what if answer != "lower" else "lower layers", kinds[answer])
        for what, answer in zip(PARTS, answers.split())
    ]
slots(drawn, width=5.5, below="")

# %% [markdown]
# **Figure 9.2.** What the third draft of a round is guessed from: the target's hidden
# states, the newest committed token, the two drafts before. Plain: known. Dotted: not
# known. Hatched: known in part. Early exit, EAGLE, MTP and the draft model make their
# drafts one after another (they are *autoregressive*), Medusa and block diffusion make
# all of them at once (in *parallel*).
#
# ## Why parallel drafts fade
#
# Here is the smallest example. The target says *A B* with probability $p$, and *C D*
# otherwise. Two drafters make two drafts each, and both are as good as their knowledge
# allows:
#
# - the autoregressive one draws A or C; then, knowing which, B or D;
# - the parallel one draws A or C; and beside it, *not* knowing which, B with
#   probability $p$ or D with $1 - p$.

# %%
A, B, C, D = range(4)


def row_of(**chances):
    """A distribution over A, B, C, D."""
    row = [chances.get(name, 0.0) for name in "ABCD"]
    return torch.tensor(row, dtype=torch.float64)


def one_round(parallel, p):
    """Two drafts and the token after, as a function of chance; then how many stayed."""

    def run(chance):
        first = row_of(A=p, C=1 - p)
        x = chance.sample(first)
        sure = row_of(B=1.0) if x == A else row_of(D=1.0)
        second = row_of(B=p, D=1 - p) if parallel else sure
        y = chance.sample(second)
        tokens, draft_rows = torch.tensor([x, y]), torch.stack([first, second])
        target_rows = torch.stack([first, sure, row_of(A=1.0)])  # after these drafts
        verdict = reject(tokens, draft_rows, target_rows, chance)
        told = [x, y][: verdict.n_accepted] + [verdict.next_token]
        return [verdict.n_accepted, *told[:2]]

    return enumerate_outputs(run).distribution


# %% [markdown]
# **Predict, then run:** $p = 1/2$. How often is each drafter's second draft accepted,
# and which of the two changes the distribution of the text?

# %%
for name, parallel in ("autoregressive", False), ("parallel", True):
    found = one_round(parallel, 0.5)
    accepted = [sum(q for out, q in found.items() if out[0] > i) for i in (0, 1)]
    texts = {}
    for (_, *told), q in found.items():
        said = "".join("ABCD"[token] for token in told)
        texts[said] = texts.get(said, 0.0) + q
    print(f"{name:<15} accepted: first {accepted[0]:.2f}, second {accepted[1]:.2f}")
    print(f"{'':<15} texts: {texts}")

# %% [markdown]
# Neither changes it: each row that is declared is the row that was drawn from. But the
# parallel drafter loses half of its second drafts. It wants *A B* and *C D*, and the
# product of its two rows also has *A D* and *C B*. More parameters or more training
# would not help. A product of rows cannot say which second token belongs to which first
# one.
#
# For other $p$, the parallel drafter's second draft is accepted with probability
# $p^2 + (1 - p)^2$. No second row can do better than to bet on the more probable token,
# which gives $\max(p, 1 - p)$:

# %%
ps = [i / 20 for i in range(21)]
seconds = {}
for name, parallel in ("autoregressive", False), ("parallel, right shares", True):
    seconds[name] = []
    for p in ps:
        found = one_round(parallel, p)
        seconds[name].append(sum(q for out, q in found.items() if out[0] == 2))
assert all(
    abs(value - p**2 - (1 - p) ** 2) < 1e-12
    for p, value in zip(ps, seconds["parallel, right shares"])
)
seconds["parallel, best bet"] = [max(p, 1 - p) for p in ps]
[ax] = axes(width=6)
curves(ax, ps, seconds)
ax.set_ylim(0, 1.08)
ax.legend(loc="lower center")
titles(ax, "p, the probability of A B", "second draft accepted")

# %% [markdown]
# **Figure 9.3.** The second draft in the example, exactly. At both ends one text has
# all the probability. There is nothing to choose, so parallel drafts of one that knew
# the text would lose nothing. At temperature 0 every text is like that.
#
# ## Does the text stay exact?
#
# Yes, whatever a head guesses. Enumerated on the shipped target with its trained heads:
# three tokens, each from the two most probable, in float64.

# %%
target, two = in_type(TARGET, torch.float64), Sampling(top_k=2)
request = Request(encode("PROSPERO:\nNow my"), 3, two, gamma=2)


def alone(chance):
    return generate_alone(target, request, chance).tokens


expected = enumerate_outputs(alone).distribution
for kind in ("medusa", "eagle", "block-diffusion", "early-exit"):
    drafter = load_head(SHIPPED / kind, target).drafter(target, two)
    judged_by = getattr(drafter, "target", target)  # early exit has run ahead

    def with_head(chance):
        return generate(judged_by, drafter, request, chance).tokens

    found = enumerate_outputs(with_head)
    difference = largest_difference(found.distribution, expected)
    print(f"{kind:<16}{found.n_branches:>5} branches, off by {difference:.0e}")
    assert difference < 1e-12

# %% [markdown]
# ## Acceptance by position
#
# Now the trained heads, beside the draft model and the copies of notebook 6 (*suffix*
# copies what followed most often; notebook 11 explains it). Seven texts each, 64
# tokens, at temperature 0 and 1. All draft up to five tokens; MTP has three modules and
# Medusa four heads.
#
# **Predict, then run:** think of three curves, EAGLE and Medusa at temperature 1, and
# Medusa at temperature 0. Where does each start, and which ones fall?

# %%
GAMMA, N_TOKENS, V = 5, 64, TARGET.config.vocab_size
IN_PARALLEL = ("medusa", "block-diffusion")
HEADS = ("eagle", "eagle3", "mtp", "early-exit", *IN_PARALLEL)
heads = {name: load_head(SHIPPED / name, TARGET) for name in HEADS}
MAKE = {
    "draft model": partial(ModelDrafter, DRAFT),
    **{name: partial(head.drafter, TARGET) for name, head in heads.items()},
    "n-gram": lambda sampling: NgramDrafter(V),
    "suffix": lambda sampling: SuffixDrafter(V),
}


def decoded(name, sampling, gamma, which=range(7)):
    """Some texts by one drafter, and its seconds for each drafted token."""
    timed = Timed(MAKE[name](sampling))
    judged_by = getattr(timed.drafter, "target", TARGET)  # early exit has run ahead
    rounds = []
    for seed in which:
        passage = passages()[seed]
        request = Request(encode(passage), N_TOKENS, sampling, gamma)
        rounds += speculative_rounds(judged_by, timed, request, Seeded(seed))
    return Generation(tuple(rounds)), median(timed.seconds)


def once_judged(done):
    """For each position, the mean probability that a judged draft is accepted."""
    by_position = [[] for _ in range(GAMMA)]
    for one in done.rounds:
        if one.tokens:
            shares = overlap(one.rows.target_probs[:-1], one.rows.draft_probs)
            for i, share in enumerate(shares[: one.judged].tolist()):
                by_position[i].append(share)
    return [mean(some) for some in by_position if len(some) >= 30]  # else only noise


texts = {
    (name, temperature): decoded(name, Sampling(temperature), GAMMA)
    for temperature in (0.0, 1.0)
    for name in MAKE
}
accepted = {case: once_judged(done) for case, (done, _) in texts.items()}

# %%
panels = axes(2, width=9.5, height=3.6)
for ax, temperature in zip(panels, (0.0, 1.0)):
    for name, marker in zip(("draft model", *HEADS), "osD^vPX"):
        shares = accepted[name, temperature]
        dash, colour = "-", COLOURS[0 if name == "draft model" else 1]
        if name in IN_PARALLEL:
            dash, colour = "--", COLOURS[2]
        ax.plot(
            range(1, len(shares) + 1), shares, dash, marker=marker, mec="black",
            color=colour, ms=7, label=name,
        )
    ax.set(ylim=(0, 1), xticks=range(1, GAMMA + 1))
    titles(ax, "draft", "accepted, once judged", f"temperature {temperature:g}")
panels[1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))

for name in ("draft model", *HEADS):  # what the caption says of temperature 1
    shares = accepted[name, 1.0][:3]
    fell = shares[0] - shares[-1]
    assert fell > 0.08 if name in IN_PARALLEL else max(shares) - min(shares) < 0.08

# %% [markdown]
# **Figure 9.4.** Acceptance by position, given that all drafts before were accepted.
# Solid: drafts one after another. Dashed: all at once. At temperature 1 the solid lines
# are about flat and the dashed ones fall, as in the example. At temperature 0 a draft
# is right or wrong, so the points scatter, and these texts are too few to tell more.
# (Curves end where fewer than 30 drafts were judged.)
#
# Look also at the *first* draft at temperature 1. Medusa does not know even the last
# token, and starts lowest. Block diffusion knows it, and starts as high as the draft
# model. From the second draft on, both lack the drafts before.
#
# ## One table
#
# Acceptance is only half the story. A drafted token also costs time: $c$ times that of
# a token by the target alone. So each drafter now gets the gamma that should be fastest
# for it, by its acceptance and its cost, and decodes by turns with the target alone.
# Bytes are those of the file, in float16. Minutes are those of its training on one core
# (`weights/README.md`).

# %%
readme = (SHIPPED.parent / "README.md").read_text(encoding="utf-8")
row = r"^\| `([\w-]+)`,[^|]*\|[^|]*\|[^|]*\|[^|]*\| ([^|]*\d) \|$"  # name ... minutes
MINUTES = {  # of all stages: "12 and 43"
    name: sum(map(int, re.findall(r"\d+", minutes)))
    for name, minutes in re.findall(row, readme, re.MULTILINE)
}
cache = TARGET.new_cache()
TARGET(text[None, :100], cache)


def pass_over(n_rows):
    """A pass over some tokens, taken back, as a function to time."""

    def work():
        TARGET(text[None, :n_rows], cache)
        cache.truncate(100)

    return work


passes = milliseconds({rows: pass_over(rows) for rows in range(1, GAMMA + 2)})
v = [passes[gamma + 1] / passes[1] for gamma in range(GAMMA + 1)]


def best_gamma_of(name, temperature):
    """From acceptance by position, of all rounds, and the measured costs."""
    done, per_draft = texts[name, temperature]
    shares, c = done.acceptance_by_position, 1e3 * per_draft / passes[1]

    def speedup(gamma):
        return round_speedup(1 + sum(shares[:gamma]), gamma, c, v[gamma])

    return max(range(1, len(shares) + 1), key=speedup)


def measured(temperature):
    """By drafter: c, gamma, speed-up (medians over some texts) and its prediction."""
    sampling, table = Sampling(temperature), {}

    def alone(seed):
        request = Request(encode(passages()[seed]), N_TOKENS, sampling)
        generate_alone(TARGET, request, Seeded(seed))

    gammas = {name: best_gamma_of(name, temperature) for name in MAKE}
    works = {"alone": alone} | {
        name: lambda seed, name=name: decoded(name, sampling, gammas[name], [seed])
        for name in MAKE
    }
    runs = by_turns(works, repeats=3)
    for name, gamma in gammas.items():
        both = list(zip(runs["alone"], runs[name]))
        gain = median(slow.seconds / one.seconds for slow, one in both)
        c = median(one.result[1] * N_TOKENS / slow.seconds for slow, one in both)
        done = Generation(tuple(r for _, one in both for r in one.result[0].rounds))
        tokens, drafts = done.tokens_per_target_forward, done.drafted / len(done.rounds)
        predicted = round_speedup(tokens, drafts, c, v[gamma])
        table[name] = c, gamma, gain, predicted
    return table


speed = {temperature: measured(temperature) for temperature in (0.0, 1.0)}

# %%
print(f"{'':<15}{'parameters':>10}{'bytes':>10}{'minutes':>8}   T  ", end="")
print(f"{'accepted, once judged':<24}{'per pass':>9}{'c':>6}{'gamma':>7}", end="")
print(f"{'speed-up':>10}{'predicted':>11}")
for name in MAKE:
    model = DRAFT if name == "draft model" else heads.get(name)
    size = n_bytes = 0
    if model is not None:
        folder = SHIPPED / ("draft" if model is DRAFT else name)
        size = sum(parameter.numel() for parameter in model.parameters())
        n_bytes = (folder / "model.safetensors").stat().st_size
    label = f"{name:<15}{size:>10,}{n_bytes:>10,}{MINUTES.get(name, '-'):>8}"
    for temperature in (0.0, 1.0):
        shares = "".join(f"{share:>5.2f}" for share in accepted[name, temperature])
        tokens = texts[name, temperature][0].tokens_per_target_forward
        c, gamma, gain, predicted = speed[temperature][name]
        print(label if temperature == 0 else " " * len(label), end="")
        print(f"{temperature:>4g} {shares:<25}{tokens:>9.2f}", end="")
        print(f"{c:>6.2f}{gamma:>7}{gain:>10.2f}{predicted:>11.2f}")

# %% [markdown]
# Tokens per pass are those of the texts of figure 9.4, with up to five drafts. The
# speed-up is that of the gamma beside it, and the prediction is that of notebook 5,
# from tokens per pass and costs. The parameters of a head are all that it adds, since
# it shares the target's embedding and output matrix. The draft model was trained after
# its target, in the same run, in 95 minutes for both on two cores. The heads were
# trained for unequal times, so the table compares these heads, not the methods at their
# best. (The handbook has longer runs. Its acceptance by position is unconditional, of
# all rounds that drafted, and so it falls.)
#
# Gloeckle et al. 2024 predict several tokens with independent heads, a block each on
# the target's last state. They are `IndependentHeads` in `mtp.py`, for contrast: no
# head is told a draft. (None was trained here.)
#
# ## Where to exit
#
# Early exit after more layers guesses better, and each draft costs a layer more. Five
# exits were trained (`weights/README.md` has more of each). Acceptance along the
# target's own texts, and the speed-up predicted from it and from measured costs, for
# rounds of three drafts:
#
# | exit after | accepted, T = 0 | T = 1 | predicted speed-up, T = 0 | T = 1 |
# |---|---|---|---|---|
# | 1 layer (shipped) | 0.62 | 0.68 | 1.34 | 1.49 |
# | 2 layers | 0.65 | 0.69 | 1.30 | 1.39 |
# | 3 layers | 0.70 | 0.73 | 1.27 | 1.33 |
# | 4 layers | 0.76 | 0.76 | 1.26 | 1.25 |
# | 6 layers | 0.78 | 0.81 | 1.06 | 1.11 |
#
# The first exit is the best here. With each layer, acceptance grows by a few
# hundredths, and the cost of a draft by a twelfth of a step.
#
# ## What EAGLE forgets after each round
#
# While EAGLE drafts, its own cache grows by rows that were built from *guessed* states.
# Verification brings the real ones. So every row that was built from a guess goes,
# whether the draft was accepted or not. The next round feeds the real states in one
# pass, together with its first draft. (The first round drafts nothing: the target has
# no states yet.)

# %%
drafter = MAKE["eagle"](warm)
request = Request(prompt, 16, warm, gamma=4)
print("rows held after a round     target's cache    EAGLE's, all real")
for one in speculative_rounds(TARGET, drafter, request, Seeded(2)):
    print(
        f"{one.n_accepted} of {one.depth} accepted, {one.extra:<10}"
        f"{drafter.cache.length:>15}{drafter.rows.length:>17}"
    )

# %% [markdown]
# EAGLE's cache is one round behind. MTP needs none of that: no row of its modules is
# built from a guessed state, since each round starts from the last real one. It pays in
# another way. Each position needs a module, and each module a pass over all that is
# new.
#
# ## Half-truth: "the drafter with the highest acceptance is the fastest"
#
# Compare MTP and EAGLE in the table. They are accepted about equally often, and MTP is
# slower: its blocks are as wide as the target's. Early exit drafts with a whole layer
# of the target. So acceptance without the cost beside it says little, as in notebook 5:

# %%
panels = axes(1, width=8.5, height=4.8, rows=2)
for ax, what in zip(panels, ("tokens per pass", "speed-up")):
    heights = {
        f"temperature {temperature:g}": [
            texts[name, temperature][0].tokens_per_target_forward
            if what == "tokens per pass" else speed[temperature][name][2]
            for name in MAKE
        ]
        for temperature in (0.0, 1.0)
    }
    bars(ax, [name.replace("-d", "-\nd") for name in MAKE], heights)
    ax.set_ylim(0, 1.35 * max(map(max, heights.values())))
    ax.axhline(1, color="0.5", linewidth=0.8)
    ax.legend(loc="upper right", ncols=2)
    titles(ax, "", what)

# %% [markdown]
# **Figure 9.5.** Above: tokens per pass with up to five drafts. Below: the measured
# speed-up at each drafter's own gamma. The grey lines are the target alone. A busy
# machine shows in the figures: read the order, not the second digit.
#
# On a GPU the costs differ. A pass of a tiny model takes about as long as starting it
# does. Then it is worth more than here to have all drafts from one pass, as Medusa and
# block diffusion do. And where rows are free, Medusa is drafted as a tree of each
# head's best tokens (Cai et al. 2024; notebook 8).
#
# ## Questions
#
# 1. The target says A B, C D, E F with probability 1/3 each. How often is a parallel
#    drafter's second draft accepted, once the first was?
# 2. Why is Medusa's text exact, although its second head does not know the first draft?
# 3. An exit after the last layer would have every draft accepted. Why is it of no use?
# 4. A head was trained for the target of last month. The new target has the same shape.
#    What goes wrong: the text or the speed?
#
# <details><summary>Answers</summary>
#
# 1. In at most 1/3 of the cases, whatever its row is. The probabilities of B, D and F
#    in it add up to at most 1, and each of them is wanted after one of three equally
#    likely first tokens.
# 2. `draft_probs[1]` is the row that its token was drawn from. It happens not to depend
#    on the draft before. `reject` asks for no more.
# 3. A draft would cost as much as a step of the target, and c would be 1.
# 4. Only the speed: bad guesses are rejected. (`load_head` compares a fingerprint of
#    the target, and refuses to load a head of another.)
#
# </details>
#
# **Exercises** (`python scripts/exercises.py next` shows them; in a notebook `from
# workbench import check`, `check(16)` grades): 16 (catching up after an early exit) and
# 17 (EAGLE's features, shifted by one). Then train a head of your own with
# `scripts/train_heads.py`, and draw figure 9.4 with it.

# %% [markdown]
# # 5. How fast, and when
#
# At the end of this notebook you will be able to explain
#
# - the four numbers that decide: acceptance rate, draft length, cost ratio, and the
#   cost of a wider pass,
# - how to predict a speed-up, and how far to trust the prediction,
# - when not to speculate.
#
# Read beside it: `minispec/core/analysis.py`; `scripts/benchmark.py` measures all this
# carefully. The figures below are a quick look, and a busy machine shows in them.

# %%
import sys
from statistics import mean

import minispec
import torch

if (folder := f"{minispec.__path__[0]}/../notebooks") not in sys.path:
    sys.path.append(folder)  # to run in any working directory

from figures import COLOURS, axes, bars, curves, titles
from minispec import (
    GPT,
    Generation,
    ModelDrafter,
    Request,
    Round,
    Sampling,
    Seeded,
    generate,
    generate_alone,
    reject,
    speculative_rounds,
)
from minispec.core.analysis import (
    alpha_from_accepted_per_drafted,
    best_gamma,
    break_even_alpha,
    expected_speedup,
    expected_tokens,
    overlap,
)
from minispec.core.autoregressive import next_probs
from minispec.core.rollback import rollback
from minispec.core.verify import verify
from minispec.model.layers import Conv1D
from minispec.model.packed import pack
from workbench import DRAFT, TARGET, by_turns, encode, milliseconds, passages

# %% [markdown]
# ## Four numbers
#
# - **alpha**, the acceptance rate: the probability that one draft is accepted, given
#   that those before it were.
# - **gamma**, the draft length: how many tokens are drafted each round.
# - **c**, the cost ratio: a step of the draft over a step of the target. (A *step* is a
#   pass over one token.)
# - **v**, the cost of verification: a pass of the target over $\gamma + 1$ tokens, over
#   a step. The paper (Leviathan, Kalman and Matias 2023) sets $v = 1$: the flat part of
#   figure 1.1.
#
# If every draft is accepted with the same probability, at least $i$ drafts are accepted
# with probability $\alpha^i$. The mean number accepted is the sum of these
# probabilities, and the target adds one token to every round:
#
# $$\text{tokens per round} = 1 + \alpha + \ldots + \alpha^\gamma
# = \frac{1 - \alpha^{\gamma + 1}}{1 - \alpha} \qquad
# \text{speed-up} = \frac{\text{tokens per round}}{\gamma c + v}$$
#
# A round takes as long as $\gamma c + v$ steps of the target, and the target alone
# takes one step for each token.

# %%
gammas = list(range(17))
left, right = axes(2, width=8)
curves(
    left, gammas, {
        f"alpha {alpha}": [expected_tokens(alpha, gamma) for gamma in gammas]
        for alpha in (0.9, 0.8, 0.6, 0.3)
    },
)
titles(left, "gamma (drafted tokens)", "tokens per round")
curves(
    right, gammas, {
        f"c {c}": [expected_speedup(0.8, gamma, c) for gamma in gammas]
        for c in (0.02, 0.05, 0.1, 0.3)
    },
)
right.set_ylim(0, None)
right.legend(loc="lower center", ncols=2)
titles(right, "gamma (drafted tokens)", "speed-up", "alpha 0.8, v = 1")

# %% [markdown]
# **Figure 5.1.** Left: tokens per round grow ever more slowly, towards
# $1 / (1 - \alpha)$. Right: since drafting costs, there is a best draft length, and
# beyond it more drafting loses. (Gamma 0 is the target alone.)
#
# With $v = 1$ speculation can help only if alpha is above c. One draft makes it
# $(1 + \alpha) / (1 + c)$ times as fast, which is a gain just then; each further one
# brings at most alpha tokens more for another c.
#
# ## Predicted and measured
#
# First the costs on this machine, with a text of 96 tokens in the caches. `v` includes
# all that a round does but drafting: the pass, the probabilities, accepting, rolling
# back.

# %%
prefix = torch.cat([encode(text) for text in passages()[:6]])[:96]
held, chance, plain = len(prefix) - 1, Seeded(1), Sampling()
LENGTHS = [1, 2, 4, 6, 8]


def step_of(model: GPT):
    """One step, as a function to time; it leaves its cache as it was."""
    cache = model.new_cache()
    model(prefix[None, :held], cache)

    def step() -> None:
        chance.sample(next_probs(model, cache, prefix, plain))
        rollback(cache, held)

    return step


some, uniform = torch.arange(8), torch.full((8, 1024), 1 / 1024)  # any eight drafts
target_cache = TARGET.new_cache()
TARGET(prefix[None, :held], target_cache)


def verification_of(K: int):
    """A round without its drafting."""

    def verification() -> None:
        rows = verify(TARGET, target_cache, prefix, some[:K], plain)
        reject(some[:K], uniform[:K], rows, chance)
        rollback(target_cache, held)

    return verification


times = milliseconds(
    {"target": step_of(TARGET), "draft": step_of(DRAFT)}
    | {str(K): verification_of(K) for K in LENGTHS}
)
c = times["draft"] / times["target"]
v = {K: times[str(K)] / times["target"] for K in LENGTHS}
print(f"a step of the target   {times['target']:.2f} ms")
print(f"a step of the draft    {times['draft']:.2f} ms, so c = {c:.3f}")
for K in LENGTHS:
    even = break_even_alpha(K, c, v[K])
    pays = "never pays" if even is None else f"pays if alpha is above {even:.2f}"
    print(f"gamma {K}: v = {v[K]:.2f}, {pays}")

# %% [markdown]
# Now real decodes at temperature 1: 64 new tokens after each of three prompts, by the
# target alone and with each draft length, by turns, three times.
#
# **Predict, then run:** which gamma is fastest here, and how much faster than the
# target alone?

# %%
prompts = [encode(text) for text in passages()[:3]]


def writing(gamma: int, model: GPT = DRAFT):
    """All prompts, for `by_turns`; gamma 0 is the target alone."""

    def run(seed: int) -> list[Generation]:
        requests = [Request(prompt, 64, gamma=gamma or 1) for prompt in prompts]
        if gamma == 0:
            return [generate_alone(TARGET, one, Seeded(seed)) for one in requests]
        drafter = ModelDrafter(model)
        return [generate(TARGET, drafter, one, Seeded(seed)) for one in requests]

    return run


def speedups(runs: dict) -> dict:
    """The target's total seconds over those of each."""
    seconds = {name: sum(one.seconds for one in timed) for name, timed in runs.items()}
    return {name: seconds[0] / some for name, some in seconds.items() if name != 0}


def together(texts: list[Generation]) -> Generation:
    """The rounds of all texts, to count them at once."""
    return Generation(tuple(one for text in texts for one in text.rounds))


runs = by_turns({gamma: writing(gamma) for gamma in (0, *LENGTHS)}, repeats=3)
measured = speedups(runs)
flat, costed = {}, {}
print("gamma  alpha  measured  predicted: v = 1  measured v")
for gamma in LENGTHS:
    rounds = together([text for one in runs[gamma] for text in one.result])
    alpha = rounds.acceptance_rate
    flat[gamma] = expected_speedup(alpha, gamma, c)
    costed[gamma] = expected_speedup(alpha, gamma, c, v[gamma])
    print(
        f"{gamma:>5}{alpha:>7.2f}{measured[gamma]:>10.2f}{flat[gamma]:>18.2f}"
        f"{costed[gamma]:>12.2f}"
    )

[ax] = axes(width=6.5, height=3.2)
curves(
    ax, LENGTHS, {
        "measured": list(measured.values()),
        "predicted with v = 1": list(flat.values()),
        "predicted with the measured v": list(costed.values()),
    },
)
ax.axhline(1, color="0.5", linewidth=0.8)
ax.set(ylim=(0, None), xticks=LENGTHS)
ax.legend(loc="lower center", ncols=2)
titles(ax, "gamma (drafted tokens)", "speed-up over the target alone")

# %% [markdown]
# **Figure 5.2.** Measured speed-up at temperature 1 and two predictions; the grey line
# is the target alone. The paper's, with $v = 1$, promises too much on a CPU, where a
# pass over nine tokens does cost more than one over one. With the measured $v$ the
# prediction needs only alpha from the texts. Both leave out the pass over the prompt,
# which weighs more the fewer passes follow.
#
# ## Why verifying is free on one machine and not on another
#
# A pass is a few rows times large matrices. While reading a matrix takes longer than
# the arithmetic of its rows, further rows are free: so it is on a GPU, for hundreds of
# them. On a CPU it depends on the product. torch's plain one gets dearer from the first
# row on; `load_pair` lays the weights out in tiles that stay in the cache while all
# rows pass (`model/packed.py`). Time both: all products of 12 layers, nothing else.
#
# **Predict, then run:** how much dearer are nine rows than one, plain and in tiles?

# %%
ROWS = (1, 5, 9, 13)


def matrices(width: int) -> torch.nn.ModuleList:
    """The four matrices of each of 12 layers."""
    shapes = [(1, 3), (1, 1), (1, 4), (4, 1)] * 12
    layers = torch.nn.ModuleList(Conv1D(a * width, b * width) for a, b in shapes)
    for parameter in layers.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    return layers.requires_grad_(False)


def through(layers: torch.nn.ModuleList, rows: int):
    """One pass of so many rows through all of them, one after another."""
    inputs = [torch.ones(1, rows, n_in) for n_in in n_inputs]
    return lambda: [layer(x) for layer, x in zip(layers, inputs)]


print("width  layout    ms for 1, 5, 9, 13 rows       13 rows / 1")
for width in (256, 768):
    untouched = matrices(width)
    n_inputs = [layer.weight.shape[0] for layer in untouched]
    layouts = {"plain": untouched, "tiles": pack(matrices(width))}
    works = {
        (name, rows): through(layers, rows)
        for name, layers in layouts.items()
        for rows in ROWS
    }
    taken = milliseconds(works, repeats=9, calls=2)
    for name in layouts:
        row = [taken[name, rows] for rows in ROWS]
        shown = "".join(f"{one:>7.1f}" for one in row)
        print(f"{width:>5}  {name:<6}{shown}{row[-1] / row[0]:>18.2f}")

# %% [markdown]
# The weights, the arithmetic and the result are the same. What differs is how often a
# weight travels from memory, and that is what decides whether a draft that is rejected
# costs anything. The same model so has another best gamma on another machine, and even
# in another library on the same machine.
#
# ## Is every draft accepted with the same probability?
#
# No. Count it, for 24 prompts at temperature 0.8, gamma 4. `acceptance_by_position` is
# what engines plot: the share of rounds in which draft 1, draft 2, ... was accepted.
# Divided by the one before, it is the rate at which a draft is accepted *once it is
# judged*. Counts scatter; the mean overlap $\sum_x \min(t(x), d(x))$ over the judged
# drafts, which is the probability itself, scatters less.
#
# **Predict, then run:** which is accepted more often once it is judged, the first draft
# of a round or the second?


# %%
def rounds_of(target_like: Sampling, draft_like: Sampling, n_texts: int, n_tokens: int):
    """The rounds of texts by the shipped pair, a list for each text."""
    for seed, text in enumerate(passages()[:n_texts]):
        request = Request(encode(text), n_tokens, target_like)
        drafter = ModelDrafter(DRAFT, draft_like)
        yield list(speculative_rounds(TARGET, drafter, request, Seeded(seed)))


def overlaps(one: Round) -> list[float]:
    """Of the judged drafts of a round."""
    draft_probs, target_probs = one.rows
    return overlap(target_probs[:-1], draft_probs)[: one.judged].tolist()


cool = Sampling(temperature=0.8)
texts = list(rounds_of(cool, cool, n_texts=24, n_tokens=120))
rounds = [one for text in texts for one in text]
counts = Generation(tuple(rounds))
shares = counts.acceptance_by_position
once_judged = [share / before for share, before in zip(shares, (1.0, *shares))]
by_round = [overlaps(one) for one in rounds]
by_position = [[some[i] for some in by_round if len(some) > i] for i in range(4)]
mean_overlap = [mean(some) for some in by_position]
print("draft   accepted, of all rounds   once judged   overlap once judged")
for i, values in enumerate(zip(shares, once_judged, mean_overlap), start=1):
    print("{:>5}{:>26.3f}{:>14.3f}{:>22.3f}".format(i, *values))

pairs = [pair for text in texts for pair in zip(text, text[1:]) if pair[1].tokens]
for extra in ("bonus", "resampled"):
    some = [overlaps(one)[0] for before, one in pairs if before.extra == extra]
    print(f"first draft after a round that ended {extra:<10}{mean(some):>20.3f}")

# %%
left, right = axes(2, width=8)
everywhere = sum(by_round, [])
left.hist(everywhere, bins=20, range=(0, 1), color="#c5d5e5", edgecolor="black")
left.axvline(mean(everywhere), color=COLOURS[2], linestyle="--")
titles(left, "overlap = probability of acceptance", "judged drafts")
heights = {"of all rounds": shares, "once judged": mean_overlap}
bars(right, ["1", "2", "3", "4"], heights)
right.set_ylim(0, 1.15)
right.legend(loc="upper center", ncols=2)
titles(right, "draft", "accepted")

# %% [markdown]
# **Figure 5.3.** Left: the overlap of all judged drafts; dashed, their mean. It is high
# where the text leaves little choice (the rest of a name, the end of a line), and low
# where the target has begun something unusual. Right: acceptance by position, counted
# over all rounds, and the mean overlap once judged. (For draft 1 both bars are
# estimates of the same probability; they differ by chance.)
#
# Text has easy and hard stretches, and the first draft of a round meets more of the
# hard ones. After a rejection it follows a token that the target wanted and the draft
# gave too little to: the text has just left the way that the draft knows. The second
# draft is judged only where the first was accepted, so there the hardest places have
# dropped out. The formula, with one alpha for all drafts, is an approximation; a good
# one, as figure 5.2 shows.
#
# Engines report accepted / drafted (notebook 3). Taken for alpha it predicts far too
# few tokens; `alpha_from_accepted_per_drafted` solves the formula for alpha:

# %%
share, tokens = counts.accepted / counts.drafted, counts.tokens_per_target_forward
solved = alpha_from_accepted_per_drafted(share, 4)
print(f"tokens per pass: counted {tokens:.2f}, predicted")
for name, alpha in {
    "accepted / judged": counts.acceptance_rate,
    "accepted / drafted": share,
    "alpha solved for": solved,
}.items():
    print(f"  from {name:<18} {alpha:.3f}: {expected_tokens(alpha, 4):.2f}")

# %% [markdown]
# ## How both models sample
#
# Alpha depends on how both models sample. A draft may do it in its own way: the text
# stays the target's, but see what it costs.


# %%
def alpha_of(target_like: Sampling, draft_like: Sampling) -> float:
    """The mean overlap of judged drafts, a quick estimate."""
    some = rounds_of(target_like, draft_like, n_texts=6, n_tokens=64)
    return mean(chance for text in some for one in text for chance in overlaps(one))


temperatures = [0.0, 0.5, 1.0, 2.0]
alphas = {
    "draft at the same temperature": [
        alpha_of(Sampling(t), Sampling(t)) for t in temperatures
    ],
    "draft at 1": [alpha_of(Sampling(t), plain) for t in temperatures],
}
[ax] = axes(width=5.5)
curves(ax, temperatures, alphas)
ax.set_ylim(0, 1)
titles(ax, "temperature of the target", "alpha")

# %% [markdown]
# **Figure 5.4.** Alpha against temperature. It costs most to let the draft sample
# otherwise than its target (dashed). A *high* temperature is often said to cost, too.
# With this pair alpha changes little, as long as both have it: this draft was trained
# to match the whole of its target's row and not only the best token
# (`weights/README.md`). Long greedy texts can flatter: so small a model runs in loops,
# which both models continue alike. So measure it for your pair.
#
# ## The break-even map


# %%
def best_speedup(alpha: float, ratio: float) -> float:
    """At the best of up to 16 drafts; 1 where none helps."""
    return expected_speedup(alpha, best_gamma(alpha, ratio, longest=16), ratio)


from_alpha = [i / 60 for i in range(61)]
from_c = [0.01 * 10 ** (i / 30) for i in range(61)]
field = [[best_speedup(alpha, ratio) for ratio in from_c] for alpha in from_alpha]
[ax] = axes(width=5.5, height=3.6)
ax.set(xscale="log", xlim=(0.01, 1.1), ylim=(0, 1.03))
ax.contourf(from_c, from_alpha, field, [0.99, 1.0001], colors=["0.85"])
lines = ax.contour(
    from_c, from_alpha, field, [1.05, 1.5, 2, 3, 5, 8], colors="black", linewidths=0.9
)
ax.clabel(lines, fmt="%gx")
ax.plot(c, counts.acceptance_rate, "*", color=COLOURS[3], mec="black", ms=12,
        label="shipped draft, here")
ax.plot(from_c, from_c, ":", color="black", label="alpha = c")
ax.legend(loc="lower right")
titles(ax, "cost ratio c", "acceptance rate alpha", "best speed-up, v = 1")

# %% [markdown]
# **Figure 5.5.** Contours: the speed-up at the best of up to 16 drafts. Grey: no draft
# length helps, which is where alpha is not above c (dotted). A larger draft moves up
# *and* right. (With a $v$ above 1 alpha has to be further above c, as in the list of
# costs above.)
#
# ## Half-truth: "speculation is always faster"
#
# Measured, with a draft that learned nothing, and with one that is never wrong:

# %%
untrained = GPT(DRAFT.config).initialize(torch.Generator().manual_seed(0)).eval()
works = {
    0: writing(0),
    "shipped draft, gamma 4": writing(4),
    "untrained draft, gamma 8": writing(8, untrained),
    "the target as draft, gamma 4": writing(4, TARGET),
}
for name, gain in speedups(by_turns(works, repeats=2)).items():
    print(f"{name:<32} {gain:.2f} times the speed of the target alone")

# %% [markdown]
# So do not speculate
#
# - when alpha is low: the draft knows other texts than its target, or samples at
#   another temperature (figure 5.4);
# - when c is high. A larger draft is better and slower, and the second often wins. For
#   a 70 B target, published measurements ([NVIDIA, Llama 3.3 70B with
#   TensorRT-LLM](https://developer.nvidia.com/blog/boost-llama-3-3-70b-inference-throughput-3x-with-nvidia-tensorrt-llm-speculative-decoding/))
#   have a 1 B draft ahead of an 8 B one;
# - when the passes are already full: many users in a batch (figure 1.1), where $v$
#   grows with every drafted token.
#
# ## Long contexts
#
# The last point has an exception. A pass also reads the cache (notebook 2), once for
# all the tokens of a text, and each user has a cache of their own. In a long context
# that is most of the reading, and there is time again for more tokens in a pass. Take
# 70 B weights and the cache of Llama 2 70B on the GPU of figure 1.1, with 200 users and
# gamma 4. With 1,000 tokens of context each, the caches are a third of the reading, and
# $v$ is 2.3. With 30,000 each they are 93 % of it, and $v$ is 1: verification is free
# again. The draft must not read as much, however. Its own cache, or the part of the
# context that it sees, has to be small next to the target's. Notebook 13 computes this,
# and how it moves the break-even.
#
# ## Questions
#
# 1. Alpha is 0.5 and c is 0.5. Which gamma is best?
# 2. You predicted 2.5x and measure 1.6x. Which two assumptions would you check?
# 3. A colleague reports 95 % acceptance and no speed-up. Give two explanations.
# 4. Your engine reports an acceptance rate of 0.54 with gamma 4. Is that a bad draft?
#
# <details><summary>Answers</summary>
#
# 1. None: speculation can help only if alpha is above c, and a $v$ above 1 makes it
#    worse.
# 2. That the pass over gamma + 1 tokens costs one step ($v = 1$), and that c is a ratio
#    of times measured and not of parameters.
# 3. The draft is almost as slow as the target (c near 1); or the passes are already
#    full, so that $v$ grows like the number of tokens in them.
# 4. No. Engines divide by all drafted tokens. Solved for alpha it is about 0.77, and a
#    round brings 1 + 4 x 0.54 = 3.2 tokens.
#
# </details>
#
# **Exercises** (`python scripts/exercises.py next` shows them; in a notebook `from
# workbench import check`, `check(12)` grades): 12 (expected tokens, best gamma).

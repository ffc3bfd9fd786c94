# %% [markdown]
# # 5. How fast, and when
#
# At the end of this notebook you will be able to explain
#
# - the four numbers that decide: acceptance rate, draft length, cost ratio, and what a
#   wider pass costs,
# - how to foretell a speed-up, and how far the forecast can be trusted,
# - when not to speculate.
#
# Read beside it: `minispec/analysis.py`; `scripts/benchmark.py` measures all this
# carefully. The figures below are a quick look, and a busy machine shows in them.

# %%
from dataclasses import replace
from functools import cache

import torch
from figures import axes, curves, titles
from minispec import autoregressive, speculative
from minispec.analysis import (
    best_gamma,
    break_even_alpha,
    expected_speedup,
    expected_tokens,
    overlap,
    round_speedup,
)
from minispec.autoregressive import next_probs
from minispec.draft import ModelDrafter
from minispec.generation import Generation
from minispec.gpt2 import GPT
from minispec.randomness import Seeded
from minispec.rollback import rollback
from minispec.sampling import Sampling, logits_to_probs
from workbench import DRAFT, TARGET, encode, milliseconds, passages, words

from benchmark_costs import measure_costs
from timing import interleave

# %% [markdown]
# ## Four numbers
#
# - **alpha**, the acceptance rate: the chance that one draft is kept, given that those
#   before it were.
# - **gamma**, the draft length: how many tokens are drafted each round.
# - **c**, the cost ratio: a step of the draft over a step of the target. (A *step* is a
#   pass over one token.)
# - **v**, the cost of verification: a pass of the target over $\gamma + 1$ tokens, over
#   a step. The paper (Leviathan, Kalman and Matias 2023) sets $v = 1$: the flat part of
#   figure 1.1.
#
# If every draft is kept with the same chance, at least $i$ drafts survive with chance
# $\alpha^i$. The mean number kept is the sum of these chances, and the target adds one
# token to every round:
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

# %%
for alpha, c in [(0.8, 0.05), (0.8, 0.1), (0.8, 0.2), (0.5, 0.5)]:
    best = best_gamma(alpha, c)
    gain = expected_speedup(alpha, best, c)
    print(f"alpha {alpha}, c {c:<5} best gamma {best}, speed-up {gain:.2f}")
assert [best_gamma(0.8, c) for c in (0.05, 0.1, 0.2)] == [8, 6, 4]
assert best_gamma(0.5, 0.5) == 0  # speculation can help only where alpha is above c

# %% [markdown]
# ## Forecast against measurement
#
# What the parts cost here, behind a text of 96 tokens. `v` includes everything the
# round does but drafting: the pass, the probabilities, accepting, rolling back. It need
# not grow evenly: for some widths the library has a faster routine than for others.

# %%
prompts = [encode(text) for text in passages()[:3]]
prefix = torch.cat([encode(text) for text in passages()[:6]])[:96]
LENGTHS = [1, 2, 3, 4, 6, 8]
costs = measure_costs(
    TARGET, DRAFT, prefix, [0, *LENGTHS], Sampling(), repeats=12, calls=4
)
c = costs.cost_ratio
print(f"a step of the target   {1e3 * costs.step:.2f} ms")
print(f"a step of the draft    {1e3 * costs.draft_step:.2f} ms, so c = {c:.3f}")
for gamma in LENGTHS:
    print(f"v for gamma {gamma}          {costs.verify_cost(gamma):.2f}")

# %% [markdown]
# Now real decodes at temperature 1: 64 new tokens after each of three prompts, by the
# target alone and with each draft length, by turns, three times.

# %%
N_TOKENS = 64


def decode_with(gamma: int, drafter=None, sampling: Sampling = Sampling()):
    """All prompts; without a gamma, by the target alone. For `interleave`."""
    drafter = drafter or ModelDrafter(DRAFT, sampling)

    def run(repeat: int) -> list:
        done = []
        for prompt in prompts:
            chance = Seeded(repeat)
            if gamma:
                done.append(speculative.generate(
                    TARGET, drafter, prompt, gamma, N_TOKENS, chance, sampling
                ))
            else:
                done.append(autoregressive.generate(
                    TARGET, prompt, N_TOKENS, chance, sampling
                ))
        return done

    return run


def speedups(works: dict, repeats: int) -> tuple[dict, dict]:
    """Total seconds of "alone" over those of each, and what each wrote."""
    for work in works.values():
        work(0)
    seconds, texts = dict.fromkeys(works, 0.0), {name: [] for name in works}
    for sample in interleave(works, repeats):
        seconds[sample.name] += sample.seconds
        texts[sample.name] += sample.result
    return {name: seconds["alone"] / s for name, s in seconds.items()}, texts


works = {"alone": decode_with(0)} | {g: decode_with(g) for g in LENGTHS}
measured, texts = speedups(works, repeats=3)

# %%
flat, costed, by_rounds, alphas = {}, {}, {}, {}
for gamma in LENGTHS:
    rounds = [round for text in texts[gamma] for round in text.rounds]
    pooled = Generation((), "length", tuple(rounds))
    tokens = sum(text.emitted for text in texts[gamma])
    v = costs.verify_cost(gamma)
    alphas[gamma] = pooled.acceptance_rate
    flat[gamma] = expected_speedup(alphas[gamma], gamma, c)
    costed[gamma] = expected_speedup(alphas[gamma], gamma, c, v)
    by_rounds[gamma] = round_speedup(
        tokens / len(rounds), pooled.drafted / len(rounds), c, v
    )

print("gamma  alpha  measured  v = 1  measured v  and rounds as counted")
for g in LENGTHS:
    print(
        f"{g:>5}{alphas[g]:>7.2f}{measured[g]:>10.2f}{flat[g]:>7.2f}{costed[g]:>12.2f}"
        f"{by_rounds[g]:>23.2f}"
    )

[ax] = axes(width=6.5, height=3.2)
curves(
    ax, LENGTHS, {
        "measured": [measured[g] for g in LENGTHS],
        "foretold with v = 1": list(flat.values()),
        "foretold with the measured v": list(costed.values()),
        "the same, rounds as counted": list(by_rounds.values()),
    },
)
ax.axhline(1, color="0.5", linewidth=0.8)
ax.set(ylim=(0, None), xticks=LENGTHS)
ax.legend(loc="lower center", ncols=2)
titles(ax, "gamma (drafted tokens)", "speed-up over the target alone")

# %% [markdown]
# **Figure 5.2.** Measured speed-up at temperature 1 and three forecasts; the grey line
# is the target alone. The paper's, with $v = 1$, promises too much on a CPU, where a
# pass over nine tokens does cost more than one over one. With the measured $v$ the
# forecast knows of the texts only alpha; the last replaces "every draft is kept with
# the same chance" by the tokens per round that were counted. What all of them leave out
# is the pass over the prompt, which weighs more the fewer passes follow.

# %%
best_measured = max(measured, key=lambda name: measured[name])
fastest = measured[best_measured]
print(f"fastest: gamma {best_measured}, {fastest:.2f} times the target alone")
off = [costed[g] / measured[g] - 1 for g in LENGTHS]
print(f"forecast with the measured v: off by {min(off):+.0%} to {max(off):+.0%}")

# %% [markdown]
# ## Is every draft kept with the same chance?
#
# No. Alpha is the mean over positions of the overlap $\sum_x \min(t(x), d(x))$, and the
# overlap changes from token to token.


# %%
@cache
def texts_with(sampling: Sampling) -> list[tuple[torch.Tensor, int]]:
    """Texts that the target writes with this sampling, and where each begins."""
    written = []
    for seed, prompt in enumerate(prompts):
        drafter = ModelDrafter(DRAFT, sampling)
        text = speculative.generate(
            TARGET, drafter, prompt, 4, 120, Seeded(seed), sampling
        )
        written.append((torch.cat([prompt, torch.tensor(text.tokens)]), len(prompt)))
    return written


def rows_of(model: GPT, whole: torch.Tensor, n: int, sampling: Sampling):
    """What `model` would draw each token after the first n from: [T - n, V]."""
    logits = model(whole[None])[0, n - 1 : -1]
    return logits_to_probs(logits, sampling, whole[:-1])


def overlaps(model: GPT, target_sampling: Sampling, draft_sampling: Sampling):
    """At every position of texts that the target writes with its sampling: [M]."""
    return torch.cat([
        overlap(
            rows_of(TARGET, whole, n, target_sampling),
            rows_of(model, whole, n, draft_sampling),
        )
        for whole, n in texts_with(target_sampling)
    ])


plain = overlaps(DRAFT, Sampling(), Sampling())
[ax] = axes(width=5.5, height=2.4)
ax.hist(plain.tolist(), bins=20, range=(0, 1), color="0.75", edgecolor="black")
ax.axvline(plain.mean(), color="black", linestyle="--")
titles(ax, "overlap = chance that the draft is kept", "positions")
print(f"mean {plain.mean():.2f} (this is alpha), standard deviation {plain.std():.2f}")

# %% [markdown]
# **Figure 5.3.** The overlap at 360 positions of texts by the target, temperature 1;
# dashed: their mean. Where it is high and low, in the first of these texts:

# %%
whole, n = texts_with(Sampling())[0]
ranked = plain[: len(whole) - n].argsort(descending=True).tolist()
for name, positions in [("highest", ranked[:5]), ("lowest", ranked[:-6:-1])]:
    print(f"{name} overlap")
    for i in positions:
        before, after = words(whole[n + i - 5 : n + i]), words(whole[n + i : n + i + 1])
        print(f"  {plain[i]:.2f}  after {before}, where {after} came")

# %% [markdown]
# Where the text leaves little choice (the rest of a name, the end of a line), both
# models are sure of the same; where the target has begun something unusual, here an
# invented name, the draft knows no way on.
#
# ## Temperature, top-p, and the size of the draft
#
# Alpha depends on how both models sample. A draft may do it in its own way: the text
# stays the target's, but see what it costs.

# %%
temperatures = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0]
top_ps = [0.3, 0.5, 0.7, 0.9, 1.0]
by_temperature = [
    float(overlaps(DRAFT, Sampling(t), Sampling(t)).mean()) for t in temperatures
]
mismatched = [
    float(overlaps(DRAFT, Sampling(t), Sampling()).mean()) for t in temperatures
]
by_top_p = [
    float(overlaps(DRAFT, Sampling(top_p=p), Sampling(top_p=p)).mean()) for p in top_ps
]

left, right = axes(2, width=8)
curves(
    left, temperatures,
    {"draft at the same temperature": by_temperature, "draft at 1": mismatched},
)
left.set_ylim(0, 1)
titles(left, "temperature of the target", "alpha")
curves(right, top_ps, {"both": by_top_p})
right.set_ylim(0, 1)
titles(right, "top-p (mass that is kept)", "alpha", "temperature 1")

# %% [markdown]
# **Figure 5.4.** Alpha against temperature (left; solid: both models alike) and top-p
# (right, where both models have the same and it hardly matters), from the overlap along
# texts that the target wrote with that very sampling. What costs is a draft that
# samples otherwise than its target (dashed). A *high* temperature is often said to
# cost, too. With this pair alpha hardly changes from 0.25 to 2, as long as both have
# it: this draft was trained to match the whole of its target's row and not only the
# best token (`weights/README.md`), and at a high temperature all rows grow alike. The
# highest value, at temperature 0, flatters: greedy texts of so small a model run in
# loops, which both models continue alike (notebook 3 has a penalty against that, and a
# lower alpha). So measure it for your pair. What the solid curve foretells:


# %%
def foretold(alpha: float) -> tuple[int, float]:
    """Best gamma of those measured, and its speed-up; (0, 1.0) if none helps."""
    gains = {g: expected_speedup(alpha, g, c, costs.verify_cost(g)) for g in LENGTHS}
    gamma = max(gains, key=lambda g: gains[g])
    return (gamma, gains[gamma]) if gains[gamma] > 1 else (0, 1.0)


print("temperature  alpha   speed-up foretold at its best gamma")
for t, alpha in zip(temperatures, by_temperature):
    gamma, gain = foretold(min(alpha, 1.0))
    print(f"{t:>11}{alpha:>7.2f}   {gain:.2f} with gamma {gamma}")

# %% [markdown]
# The size of the draft: both alpha *and* c grow with it. For a series of drafts without
# any training, take the target's own first layers, with its last norm and head: at 12
# layers that is the target itself, which is never wrong and costs everything.


# %%
def first_layers(n: int) -> GPT:
    """The target without its later blocks."""
    cut = GPT(replace(TARGET.config, n_layer=n))
    cut.load_state_dict(TARGET.state_dict(), strict=False)
    return cut.eval()


def step_of(model: GPT):
    """One step over a cache of 95 tokens, as a work to be timed."""
    held = model.new_cache()
    model.trunk(prefix[None, :-1], held)

    def step() -> None:
        next_probs(model, held, prefix, Sampling())
        rollback(held, len(prefix) - 1)

    return step


sizes = [1, 2, 4, 6, 8, 10, 12]
drafts = {f"{n} of 12 layers": first_layers(n) for n in sizes}
drafts["shipped draft"] = DRAFT
times = milliseconds({name: step_of(model) for name, model in drafts.items()}, 9)
points = {}
print(f"{'':<18}{'alpha':>7}{'c':>7}   speed-up foretold (v = 1)")
for name, model in drafts.items():
    alpha = min(float(overlaps(model, Sampling(), Sampling()).mean()), 1.0)
    ratio = times[name] / times["12 of 12 layers"]
    gamma = best_gamma(alpha, ratio, longest=16)
    gain = expected_speedup(alpha, gamma, ratio) if gamma else 1.0
    points[name] = (alpha, ratio)
    print(f"{name:<18}{alpha:>7.2f}{ratio:>7.2f}   {gain:.2f} with gamma {gamma}")

# %% [markdown]
# A draft that was *trained* to imitate its target beats the first layers of the target
# by far, and costs less than one of them. (With $v = 1$ all of this is only to compare
# drafts with each other; figure 5.2 shows what is left of it.)
#
# ## The break-even map

# %%
from_alpha = [i / 60 for i in range(61)]
from_c = [0.01 * 10 ** (i / 30) for i in range(61)]


def best_speedup(alpha: float, ratio: float) -> float:
    """At the best of up to 16 drafts; 1 where none helps."""
    gamma = best_gamma(alpha, ratio, longest=16)
    return expected_speedup(alpha, gamma, ratio)


field = [[best_speedup(alpha, ratio) for ratio in from_c] for alpha in from_alpha]
[ax] = axes(width=6.5, height=4)
ax.set(xscale="log", xlim=(0.01, 1.1), ylim=(0, 1.03))
ax.contourf(from_c, from_alpha, field, [0.99, 1.0001], colors=["0.85"])
lines = ax.contour(
    from_c, from_alpha, field, [1.05, 1.5, 2, 3, 5, 8], colors="black", linewidths=0.9
)
ax.clabel(lines, fmt="%gx")
for (name, (alpha, ratio)), marker in zip(points.items(), "os^vD*XP"):
    ax.plot(ratio, alpha, marker, color="white", markeredgecolor="black", label=name)
ax.plot(from_c, from_c, ":", color="black", label="alpha = c")
ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
titles(ax, "cost ratio c", "acceptance rate alpha", "best speed-up, v = 1")

# %% [markdown]
# **Figure 5.5.** Contours: the speed-up at the best of up to 16 drafts. Grey: no draft
# length helps, which is where alpha is not above c (dotted). Points: the drafts above,
# measured here at temperature 1.
#
# With a $v$ above 1 alpha has to be further above c. As measured:

# %%
for gamma in (1, 2, 4, 8):
    v = costs.verify_cost(gamma)
    even = break_even_alpha(gamma, c, v)
    shown = "never pays" if even is None else f"pays if alpha is above {even:.2f}"
    print(f"here, gamma {gamma}: {shown}")

# %% [markdown]
# ## Half-truth: "speculation is always faster"
#
# Measured, with a draft that learned nothing, and with one that is never wrong. (The
# shipped draft stands here once more. If its figure is not that of figure 5.2, that is
# how far two short measurements on this machine differ, and no forecast can be trusted
# further than that.)

# %%
untrained = GPT(DRAFT.config).initialize(torch.Generator().manual_seed(0)).eval()
works = {
    "alone": decode_with(0),
    "shipped draft, gamma 4": decode_with(4),
    "untrained draft, gamma 8": decode_with(8, ModelDrafter(untrained)),
    "the target as draft, gamma 4": decode_with(4, ModelDrafter(TARGET)),
}
gains, _ = speedups(works, repeats=2)
for name, gain in gains.items():
    print(f"{name:<32} {gain:.2f} times the speed of the target alone")

# %% [markdown]
# So do not speculate
#
# - when alpha is low: a draft that knows other texts than its target, or one that
#   samples at another temperature (figure 5.4), or a pair whose alpha falls at the high
#   temperature you want (this one's hardly does);
# - when c is high: a draft that is too large. Making a draft larger makes it better and
#   slower, and the second often wins. For a 70 B target, published measurements
#   ([NVIDIA, Llama 3.3 70B with
#   TensorRT-LLM](https://developer.nvidia.com/blog/boost-llama-3-3-70b-inference-throughput-3x-with-nvidia-tensorrt-llm-speculative-decoding/))
#   have a 1 B draft ahead of an 8 B one. The arithmetic, by weights alone:

# %%
small, large = 1 / 70, 8 / 70
for alpha in (0.6, 0.7, 0.8):
    goal = best_speedup(alpha, small)
    alphas_tried = [i / 1000 for i in range(1001)]
    needed = next(a for a in alphas_tried if best_speedup(a, large) >= goal)
    print(
        f"a 1 B draft with alpha {alpha} gives {goal:.1f}x; "
        f"an 8 B draft would need alpha {needed:.2f}"
    )

# %% [markdown]
# - when the passes are already full: many users in a batch (figure 1.1), where $v$
#   grows with every drafted token.
#
# ## Questions
#
# 1. Alpha is 0.5 and c is 0.5. Which gamma is best?
# 2. Your forecast says 2.5x and you measure 1.6x. Which two assumptions would you
#    check?
# 3. A colleague reports 95 % acceptance and no speed-up. Give two explanations.
#
# <details><summary>Answers</summary>
#
# 1. None: speculation can help only if alpha is above c, whatever $v$ is.
# 2. That the pass over gamma + 1 tokens costs one step ($v = 1$), and that c is a ratio
#    of times measured and not of parameters. (That every draft has the same chance
#    matters less: in figure 5.2 it hardly moves the forecast.)
# 3. The draft is almost as slow as the target (c near 1); or the passes are already
#    full, so that $v$ grows like the number of tokens in them.
#
# </details>
#
# **Exercises** (the README says how to start): 12 (expected tokens, best gamma).

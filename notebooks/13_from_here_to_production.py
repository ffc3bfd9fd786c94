# %% [markdown]
# # 13. From here to production
#
# You have seen every part. This notebook is about the way from here to a server. At the
# end of it you will be able to explain
#
# - which file here is which option of an engine, and what an engine's metrics mean,
# - what a draft loses when its probabilities are thrown away,
# - why rolling back is free for attention and not for models with a recurrent state,
# - how long contexts and full batches move the break-even,
# - how to prove that somebody else's sampler is lossless, or to refute it.
#
# Read beside it: `minispec/core/analysis.py`, `minispec/exactness/`. Notebooks 4, 5 and
# 12 come before this one.

# %%
import sys
import warnings

import minispec
import torch

if (folder := f"{minispec.__path__[0]}/../notebooks") not in sys.path:
    sys.path.append(folder)  # to run in any working directory

from figures import axes, bars, curves, titles
from minispec import (
    Generation,
    ModelDrafter,
    Request,
    Seeded,
    generate,
    generate_alone,
)
from minispec.commands.cli import main
from minispec.core.analysis import (
    alpha_from_accepted_per_drafted,
    expected_tokens,
    overlap,
    round_speedup,
)
from minispec.core.rejection import Verdict, residual
from minispec.exactness import ROUNDING, difference_table, largest_difference
from minispec.exactness.one_round import distribution_of_one_round, distribution_of_rows
from minispec.exactness.torch_chance import torch_draws_from
from workbench import DRAFT, TARGET, encode, passages

# %% [markdown]
# ## Which option is which file
#
# | method | file in `minispec/` | vLLM | SGLang | llama.cpp |
# |---|---|---|---|---|
# | draft model | `core/draft` | `draft_model` | `STANDALONE` | `draft-simple` |
# | prompt lookup | `drafters/ngram` | `ngram` | `NGRAM` | `ngram-simple` |
# | suffix decoding | `drafters/suffix` | `suffix` | | |
# | Medusa | `drafters/medusa` | `medusa` | | |
# | EAGLE | `drafters/eagle` | `eagle` | `EAGLE` | |
# | EAGLE-3 | the same | `eagle3` | `EAGLE3` | `draft-eagle3` |
# | multi-token prediction | `drafters/mtp` | `mtp` | `EAGLE` | `draft-mtp` |
# | DFlash | `drafters/block_diffusion` | `dflash` | `DFLASH` | `draft-dflash` |
#
# The names are the `method` of vLLM's speculative configuration, the value of SGLang's
# `--speculative-algorithm` and that of llama.cpp's `--spec-type` (which has more kinds
# of prompt lookup). Further options:
#
# - Gamma is `num_speculative_tokens` in vLLM, `--speculative-num-steps` in SGLang and
#   `--draft-max` in llama.cpp (`--spec-draft-n-max` in newer versions).
# - To stop when unsure, `stop_below` in `core/draft.py`, is llama.cpp's
#   `--draft-p-min`.
# - The width of trees (`trees/`) is SGLang's `--speculative-eagle-topk`.
# - Whether drafts are drawn and their rows kept, or greedy, is `draft_sample_method` in
#   vLLM: `probabilistic` or `greedy`. In SGLang `--speculative-use-rejection-sampling`
#   keeps the rows.
# - Block verification, `judges/block.py`, is `rejection_sample_method: block` in vLLM.
#
# This is from the engines' documents and code in 2026. Names change from version to
# version, and none of the engines was run here. An empty field means that we know of
# no such option.
#
# Engines also differ in how they count, in whether they keep the draft's probabilities,
# and in how they undo. These are the next three sections.
#
# ## An engine's metrics, in our terms
#
# Decode with several draft lengths, and print what the logs of engines would say.
#
# **Predict, then run:** from gamma 1 to 8 with the same two models, what happens to the
# acceptance rate that is reported?

# %%
GAMMAS = [1, 2, 3, 4, 6, 8]


def decoded(gamma, n_texts=8, n_tokens=64):
    """The rounds of some texts, but for the last of each, which the budget cuts."""
    rounds = []
    for seed, text in enumerate(passages()[:n_texts]):
        request = Request(encode(text), n_tokens, gamma=gamma)
        done = generate(TARGET, ModelDrafter(DRAFT), request, Seeded(seed))
        rounds += [one for one in done.rounds if one.depth == gamma]
    return Generation(tuple(rounds))


runs = {gamma: decoded(gamma) for gamma in GAMMAS}
for gamma, run in runs.items():
    per_drafted = run.accepted / run.drafted
    mean_length = 1 + run.accepted / len(run.rounds)
    by_position = ", ".join(f"{share:.2f}" for share in run.acceptance_by_position)
    print(f"gamma {gamma}: acceptance rate {per_drafted:.3f}", end=" ")
    print(f"({run.accepted} accepted / {run.drafted} generated),")
    print(f"         mean acceptance length {mean_length:.2f}")
    print(f"         by position {by_position}")

# %% [markdown]
# - **Acceptance rate** is *accepted / drafted* in vLLM and in llama.cpp (which prints
#   accepted / generated). It also divides by the drafts after a rejection, which nobody
#   judged. So it falls with gamma, although the draft is as good as before.
# - **Mean acceptance length** in vLLM is 1 + accepted / rounds. It counts the token
#   that the target adds, so it is our tokens per round where every round drafts. (Ask
#   of each tool whether that token is counted; in some it is not.)
# - **By position** is the share of the rounds with drafts that accepted draft $i$, our
#   `acceptance_by_position`. Divided by the one before, it is the draft's own rate.
#
# Our alpha is *accepted / judged*. `alpha_from_accepted_per_drafted` solves for it from
# the reported rate:

# %%
reported = [run.accepted / run.drafted for run in runs.values()]
solved = [alpha_from_accepted_per_drafted(x, g) for x, g in zip(reported, GAMMAS)]
judged = [run.acceptance_rate for run in runs.values()]
[ax] = axes(width=6)
curves(
    ax, GAMMAS, {
        "accepted / judged": judged,
        "solved from accepted / drafted": solved,
        "accepted / drafted": reported,
    },
)
ax.set_ylim(0, 1)
ax.set_xticks(GAMMAS)
titles(ax, "gamma", "rate")
for gamma, x in zip(GAMMAS, reported):
    wrong, right = (
        expected_tokens(alpha, gamma)
        for alpha in (x, alpha_from_accepted_per_drafted(x, gamma))
    )
    print(
        f"gamma {gamma}: {1 + gamma * x:.2f} tokens per round; expected from the "
        f"report {wrong:.2f}, from the solved alpha {right:.2f}"
    )

# %% [markdown]
# **Figure 13.1.** Three rates of the same two models. The reported one falls with
# gamma; the other two hardly move. Put into the formulas of notebook 5 as if it were
# alpha, the reported one predicts far too little.
#
# ## Drafts with and without their probabilities
#
# To accept with $t(x) / d(x)$ an engine must keep the draft's rows: gamma times the
# vocabulary, for each text. Some engines lose them and treat each draft as certain (a
# one-hot row). Or they draft greedily, which makes it certain in fact. All three are
# lossless. The probability that a draft is accepted is then
#
# $$\sum_x \min(t(x), d(x)), \qquad \sum_x t(x) \, d(x), \qquad t(\text{argmax}\, d).$$
#
# **Predict, then run:** which of these rises with the temperature, and which falls?

# %%
prompt = encode(passages()[0])
alone = generate_alone(TARGET, Request(prompt, 400), Seeded(1))
ids = torch.cat([prompt, torch.tensor(alone.tokens)])[None]
logits = TARGET(ids)[0], DRAFT(ids)[0]
TEMPERATURES = [0.1, 0.25, 0.5, 0.75, 1.0, 1.25]
ways = {
    "drawn, its row kept": [],
    "greedy": [],
    "drawn, its row lost": [],
}
for temperature in TEMPERATURES:
    t, d = ((some / temperature).softmax(dim=-1) for some in logits)
    ways["drawn, its row kept"].append(float(overlap(t, d).mean()))
    ways["greedy"].append(float(t.gather(1, d.argmax(-1, keepdim=True)).mean()))
    ways["drawn, its row lost"].append(float((t * d).sum(dim=-1).mean()))
[ax] = axes(width=6)
curves(ax, TEMPERATURES, ways)
ax.set_ylim(0, 1)
titles(ax, "temperature of both", "a draft is accepted")
for name, values in ways.items():
    print(f"{name:<22}" + "".join(f"{value:>7.2f}" for value in values))

# %% [markdown]
# **Figure 13.2.** The shipped pair along a text of the target. At low temperatures the
# three are close. With its row kept, a draft is accepted more often as the temperature
# rises. Without it the acceptance falls, and greedy drafts are the better choice here.
# So if your engine accepts far less at temperature 1 than at 0, ask whether it keeps
# the rows (the options are above).
#
# ## Half-truth: "rollback is free"
#
# It is, for attention: a row of the cache belongs to one position, and forgetting is a
# length. State-space models and linear attention keep no rows (notebook 2). They keep
# one *state* of fixed size, and each token is stirred into it. Here is such a layer in
# a few lines, in the form of gated linear attention:
#
# $$S_i = a_i \, S_{i-1} + k_i v_i^\top, \qquad \text{out}_i = q_i^\top S_i.$$

# %%
D, N_TOKENS = 16, 80
generator = torch.Generator().manual_seed(0)
keys, values = torch.randn(2, N_TOKENS, D, generator=generator)
decays = 0.7 + 0.3 * torch.rand(N_TOKENS, generator=generator)


def read(state, i):
    """The state after token i. (In a real layer a, k and v come from the token.)"""
    return decays[i] * state + torch.outer(keys[i], values[i])


def read_all(state, tokens):
    for i in tokens:
        state = read(state, i)
    return state


held = read_all(torch.zeros(D, D), range(10))  # the prefix: tokens 0 to 9
verified = read_all(held, [10, 11, 12, 13, 14])  # one round: five tokens go through
due = read_all(held, [10, 11])  # three of them are rejected
print(f"the state has {D} x {D} numbers, before the round and after it")
print(f"after the round it is off by {float((verified - due).abs().max()):.2f}")

# %% [markdown]
# No length leads from `verified` back to `due`. The rejected tokens are in the state
# for good. There are three ways out, and one that does not work:

# %%
snapshots = [held]  # 1. keep the state after each of the K + 1 tokens
for i in [10, 11, 12, 13, 14]:
    snapshots.append(read(snapshots[-1], i))
by_snapshot = snapshots[2]

by_replay = read_all(held, [10, 11])  # 2. keep one, and read the accepted ones again

inputs = [(decays[i], keys[i], values[i]) for i in [10, 11, 12, 13, 14]]
by_inputs = held  # 3. keep what was stirred in, which is small, and stir again
for a, k, v in inputs[:2]:
    by_inputs = a * by_inputs + torch.outer(k, v)


def undone(state, tokens):
    """4. Compute backwards: take out what was stirred in, and divide by the decay."""
    for i in reversed(tokens):
        state = (state - torch.outer(keys[i], values[i])) / decays[i]
    return state


for name, state in {
    "a snapshot for each token": by_snapshot, "replay": by_replay,
    "replay of the inputs": by_inputs, "backwards": undone(verified, [12, 13, 14]),
}.items():
    print(f"{name:<27}off by {float((state - due).abs().max()):.0e}")

# %% [markdown]
# Computing backwards looks almost right. But each division enlarges the rounding error,
# the more so the more the layer forgets with each token. (And a layer that forgets
# everything, $a = 0$, cannot be undone at all.)

# %%
REJECTED = [1, 2, 4, 8, 12, 16, 24, 32]
errors = {}
for name, forgets in ("about 3 %", 0.03), ("20 %", 0.2), ("50 %", 0.5):
    decays[:] = 1 - forgets * 2 * torch.rand(N_TOKENS, generator=generator)
    decays.clamp_(min=0.05)
    before = read_all(torch.zeros(D, D), range(40))
    errors[f"forgets {name} a token"] = [
        float((undone(read_all(before, some), some) - before).norm() / before.norm())
        for some in (range(40, 40 + n) for n in REJECTED)
    ]
left, right_ax = axes(2, width=8.5)
curves(left, REJECTED, errors)
left.axhline(1, color="0.5", linewidth=0.8)
left.set_yscale("log")
left.set_ylim(None, 1e6)
titles(left, "tokens taken back", "error of the state, over its size")
HEAD = 128  # a usual width of a head
lengths = [2**i for i in range(5, 14)]
curves(
    right_ax, lengths, {
        "attention: keys and values": [2 * HEAD * n / 1e3 for n in lengths],
        "one state": [HEAD * HEAD / 1e3] * len(lengths),
        "gamma 4: five states": [5 * HEAD * HEAD / 1e3] * len(lengths),
    },
)
right_ax.set(xscale="log", yscale="log")
titles(right_ax, "tokens held", "thousands of numbers per head")
n_alike = HEAD * HEAD // (2 * HEAD)
print(f"a state of {HEAD} x {HEAD} is as large as the cache of {n_alike} tokens")

# %% [markdown]
# **Figure 13.3.** Left: the error of a state that was computed backwards (float32). At
# the grey line nothing of the state is left. A snapshot has no error. Right: what one
# head keeps. A snapshot is as large as the cache of 64 tokens, whatever the length of
# the text.
#
# So an engine pays. It pays with memory (a state for each drafted token), or with work
# (one state for each round, and accepted tokens are read again), or it keeps the small
# inputs of the last tokens and applies those that were accepted. All three are exact.
# To restore nothing is a silent mistake: the text goes on from a past that never was.
# *Hybrid* models have both kinds of layers and need both kinds of rollback. A sliding
# window in a ring buffer needs care, too: drafts overwrite the oldest rows, which are
# wanted back.
#
# ## Long contexts
#
# A pass reads the weights once, and the cache of *each* text once. Arithmetic grows
# with the number of tokens in the pass, and reading does not. Take a target like Llama
# 2 70B in fp16 (80 layers of width 8,192, eight heads of keys and values) on a GPU with
# 3.35 TB/s and 989 Tflop/s:
#
# - the weights are 140 GB, read once in a pass;
# - the cache has 2 x 80 x 8 x 128 numbers of 2 bytes, or 327,680 bytes, for each token;
# - a token of the pass takes 2 x 70e9 operations, and 4 x 80 x 8,192 for each token
#   that its text holds.

# %%
WEIGHTS, ROW, BANDWIDTH, FLOPS = 70e9, 327_680, 3.35e12, 989e12
ATTENTION = 4 * 80 * 8192
CONTEXTS = {"1 k": 1_000, "8 k": 8_000, "32 k": 32_000, "128 k": 128_000}


def seconds(users, context, tokens, weights=WEIGHTS, row=ROW, attention=ATTENTION):
    """A pass over so many tokens of each user: the longer of reading and arithmetic."""
    reading = (2 * weights + users * context * row) / BANDWIDTH
    work = users * tokens * (2 * weights + context * attention) / FLOPS
    return max(reading, work)


print("context   cache of a text   as much as the weights   64 users: flat up to")
for name, context in CONTEXTS.items():
    as_much = 2 * WEIGHTS / (context * ROW)
    flat = next(n for n in range(2, 10_000) if seconds(64, context, n) > (
        1.001 * seconds(64, context, 1)
    ))
    print(
        f"{name:>7}{context * ROW / 1e9:>15.1f} GB{as_much:>17.0f} texts"
        f"{flat - 1:>17} tokens each"
    )

# %% [markdown]
# Reading the caches of 14 texts of 32,000 tokens takes longer than reading the weights.
# And all tokens of a text share the reading of its cache. So in a full batch of long
# texts the arithmetic is idle again, and drafts are free again.
#
# The draft model reads, too. Take one of 1.2 B weights, whose cache has 32,768 bytes
# for each token, a tenth of the target's. Alpha is 0.8 and gamma 4:
#
# **Predict, then run:** up to how many users does speculation pay with contexts of
# 1,000 tokens, and with 32,000?

# %%
USERS = [2**i for i in range(11)]
ALPHA, GAMMA = 0.8, 4


def gain(users, context, draft_sees=None):
    """The speed-up; `draft_sees` limits how many tokens the draft looks back."""
    seen = min(context, draft_sees or context)
    step = seconds(users, context, 1)
    draft = seconds(users, seen, 1, 1.2e9, 32_768, 4 * 16 * 2048)
    verify = seconds(users, context, GAMMA + 1)
    tokens = expected_tokens(ALPHA, GAMMA)
    return round_speedup(tokens, GAMMA, draft / step, verify / step)


left, right = axes(2, width=9, height=3.2)
by_context = {f"context {k}": [gain(u, n) for u in USERS] for k, n in CONTEXTS.items()}
curves(left, USERS, by_context)
left.legend(loc="lower left", ncols=2)
lengths = [1_000 * 2**i for i in range(8)]
curves(
    right, [n / 1000 for n in lengths], {
        "64 users": [gain(64, n) for n in lengths],
        "64 users, draft sees 1,000 tokens": [gain(64, n, 1_000) for n in lengths],
        "512 users": [gain(512, n) for n in lengths],
    },
)
titles(left, "users", "speed-up, gamma 4")
titles(right, "context, thousands of tokens", "speed-up, gamma 4")
for ax, base in (left, 2), (right, 2):
    ax.set_xscale("log", base=base)
    ax.axhline(1, color="0.5", linewidth=0.8)
    ax.set_ylim(0, 3.6)
left.set_xticks(USERS, [str(u) for u in USERS])
right.set_xticks([n / 1000 for n in lengths], [str(n // 1000) for n in lengths])
for name, context in CONTEXTS.items():
    ends = next((u for u in range(1, 100_000) if gain(u, context) < 1), None)
    says = f"a loss from {ends} users on" if ends else "never a loss"
    print(f"{name:>7}: {says}")

# %% [markdown]
# **Figure 13.4.** Left: with short contexts the gain ends in a full batch; with long
# ones it does not end. Right: the same by context. There the draft's own cache limits
# the gain. A draft that looks back at a window alone gains more (and guesses a little
# worse, which is not in the picture). MagicDec (2024) works this out.
#
# Left out: how many devices so many caches need, and that real passes bend earlier.
#
# ## Batches and several devices
#
# `minispec batch` decodes many prompts at once (notebook 12), and `minispec plan
# --batch` does the arithmetic of short contexts for your own numbers:

# %%
asked = "plan --accepted-per-drafted 0.54 --gamma 4 --batch 256"
assert main(asked.split()) == 0

# %% [markdown]
# Over several devices a pass exchanges messages, as many for five tokens as for one. So
# speculation saves messages as well (notebook 12; `torchrun --nproc-per-node 2 -m
# minispec generate`). A small draft model stays whole on every device, since each of
# its steps would otherwise wait for messages. All devices must decide alike, from the
# same numbers and the same seed. Or one decides and tells the others.
#
# ## Somebody else's sampler
#
# Suppose that this function came from an engine. It draws from torch, for all drafts at
# once. Is it lossless? Inside `torch_draws_from`, torch's draws become questions to the
# enumeration of notebook 4:


# %%
def theirs(tokens, draft_probs, target_probs, mistake=""):
    """A vectorised rejection step, as one might find it; or with a mistake."""
    K = len(tokens)
    rows = torch.arange(K)
    ratios = target_probs[rows, tokens] / draft_probs[rows, tokens]
    uniforms = torch.rand(K, dtype=ratios.dtype)
    if mistake == "one uniform for all":
        uniforms = torch.rand(1, dtype=ratios.dtype).expand(K)
    passes = uniforms <= ratios if mistake == "<=" else uniforms < ratios
    n_accepted = int(passes.int().cumprod(0).sum())
    weights = target_probs[n_accepted]
    if n_accepted < K and mistake != "target in place of the residual":
        weights = (weights - draft_probs[n_accepted]).clamp(min=0)
        if mistake == "softmax of the residual":
            weights = weights.softmax(dim=-1)
    return Verdict(n_accepted, int(torch.multinomial(weights, 1)))


def enumerated(target_rows, draft_rows, mistake="", drawn_from=None, dtype=None):
    """The distribution of a round, down every branch of torch's chance."""

    def sampler(tokens, draft_probs, target_probs, chance):
        with torch_draws_from(chance):
            rows = draft_probs.to(dtype), target_probs.to(dtype)
            return theirs(tokens, *rows, mistake)

    return distribution_of_one_round(sampler, target_rows, draft_rows, drawn_from)


target_rows = torch.tensor(
    [[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [0.3, 0.4, 0.3]], dtype=torch.float64
)
draft_rows = torch.tensor([[0.2, 0.5, 0.3], [0.5, 0.3, 0.2]], dtype=torch.float64)
due = distribution_of_rows(target_rows)
off = largest_difference(enumerated(target_rows, draft_rows), due)
print(f"{len(due)} sequences, largest difference {off:.0e}")
assert off < ROUNDING

# %% [markdown]
# It is lossless at these rows. (There are two drafts, and rows that differ by position,
# so that a row taken from the wrong place shows.) Now four versions with one mistake
# each. The last of them is right in itself, but its drafts were chosen greedily and the
# declared rows say that they were drawn.
#
# **Predict, then run:** in which of the four does the *first* token have the right
# distribution?

# %%
certain = torch.nn.functional.one_hot(draft_rows.argmax(dim=-1), 3).double()
wrong_ones = {
    mistake: enumerated(target_rows, draft_rows, mistake)
    for mistake in (
        "one uniform for all",
        "target in place of the residual",
        "softmax of the residual",
    )
}
wrong_ones["greedy drafts, softmax rows"] = enumerated(
    target_rows, draft_rows, drawn_from=certain
)
first = {"target": target_rows[0].tolist()}
for name, found in wrong_ones.items():
    first[name] = [sum(p for t, p in found.items() if t[0] == x) for x in range(3)]
    off = largest_difference(found, due)
    print(f"{name:<33}off by {off:.3f}; first token", end=" ")
    print(" ".join(f"{p:.3f}" for p in first[name]))
    assert off > 1e-3

[ax] = axes(width=7, height=3.2)
shown = ["target", *list(wrong_ones)[1:]]
bars(ax, ["A", "B", "C"], {name: first[name] for name in shown})
ax.set_ylim(0, 0.9)
titles(ax, "first token", "probability")
print(difference_table(wrong_ones["one uniform for all"], due))

# %% [markdown]
# **Figure 13.5.** The first token of three wrong samplers beside the target's. *One
# uniform for all* is not drawn: its first token is right, and the second is wrong. One
# number decides about both drafts, and once the first has passed, it is known to be
# small. A test of first tokens would not notice.
#
# ## A real one
#
# `transformers` has such a step, `_speculative_sampling`. We turned the kit on that of
# version 5.24 (`tests/exactness/test_exactness_transformers.py`). At ordinary rows it
# is lossless. Two things were found at the edge.
#
# First, it accepts where $u \le t(x) / d(x)$. A uniform of torch is exactly 0 once in
# $2^{24}$ draws of float32, and then a token passes to which the target gives
# probability 0. In our own version, with A forbidden and drafted half of the time:

# %%
forbids = torch.tensor([[0.0, 0.5, 0.5], [0.2, 0.3, 0.5]], dtype=torch.float64)
drafts_it = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64)
for sign, mistake in ("< ", ""), ("<=", "<="):
    found = enumerated(forbids, drafts_it, mistake, dtype=torch.float32)
    chance = sum(p for tokens, p in found.items() if tokens[0] == 0)
    print(f"u {sign} t/d: A comes out with probability {chance:.1e}")
print(f"one half of 2**-24 is {0.5 * 2**-24:.1e}")

# %% [markdown]
# Here that is one draft in 34 million. On a server it is rarer by as much as drafts of
# probability 0 are rarer than here. (In bfloat16 it happens far more often: notebook
# 7.)
#
# Second, a residual may have no mass. Let both models say the same but for a rounding
# error. Then a rejection is improbable, and possible. The residual is 0 everywhere:

# %%
d = torch.tensor([0.5, 0.25, 0.25])
t = torch.tensor([0.5 - 2**-25, 0.25, 0.25])
print(f"a draft of A is rejected with probability {float(1 - t[0] / d[0]):.1e}")
weights = (t - d).clamp(min=0)
print("the residual before it is divided:", weights.tolist())
try:
    torch.multinomial(weights, 1)
except RuntimeError:
    print("torch.multinomial raises RuntimeError, and the text ends here")
print("ours falls back to the target's row:", residual(t, d).tolist())

# %% [markdown]
# If `transformers` is installed, the next cell asks the real function. It wants logits,
# with a batch of one:

# %%
try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about progress bars
        from transformers.generation.utils import _speculative_sampling
except ImportError:
    print("transformers is not installed, or keeps its sampler elsewhere")
else:

    def real(tokens, draft_probs, target_probs, chance):
        """Their step in our terms; float32, as they run it."""
        logits = draft_probs.float().log()[None], target_probs.float().log()[None]
        with torch_draws_from(chance):
            told, n_accepted = _speculative_sampling(
                tokens[None], logits[0], len(tokens), logits[1]
            )
        return Verdict(int(n_accepted), int(told[0, -1]))

    found = distribution_of_one_round(real, target_rows, draft_rows)
    off = largest_difference(found, due)
    print(f"at the rows above: largest difference {off:.0e}, float32")
    found = distribution_of_one_round(real, forbids, drafts_it)
    chance = sum(p for tokens, p in found.items() if tokens[0] == 0)
    print(f"A, forbidden, comes out with probability {chance:.1e}")

# %% [markdown]
# A whole decode is tested in the same way, as a function of a `Randomness`
# (`output_distribution`), on a model so small that it can be enumerated. A server
# behind a network cannot be enumerated. Test it by statistics, at a stated rate of
# false alarms (notebook 7). And with coupled draws one comparison of texts is enough
# (notebook 10).
#
# ## Before you switch it on
#
# 1. Measure alpha (accepted / judged), c and v on your own traffic, at your own
#    temperatures and batch sizes. `plan` then says which gamma pays, if any.
# 2. Check that the sampling options reach *every* row of a verification, and that each
#    declared row is the row that was drawn from.
# 3. Run the engine's rejection step through `distribution_of_one_round`.
# 4. In float32, compare greedy texts with and without speculation. In half precision,
#    expect some to part where two tokens all but tie (notebook 7).
# 5. Watch tokens per round, acceptance by position, and the time of a token. Lower
#    gamma as the batch fills.
#
# ## Where next
#
# You can now read the papers. Each is a step from what you know:
#
# - The method:
#   [Leviathan, Kalman and Matias 2023](https://arxiv.org/abs/2211.17192);
#   [Chen et al. 2023](https://arxiv.org/abs/2302.01318).
# - A better judge:
#   [Sun et al. 2024, block verification](https://arxiv.org/abs/2403.10444).
# - Shared dice:
#   [Daliri, Musco and Suresh 2025](https://arxiv.org/abs/2408.07978).
# - Trees:
#   [Miao et al. 2023, SpecInfer](https://arxiv.org/abs/2305.09781);
#   [Chen et al. 2024, Sequoia](https://arxiv.org/abs/2402.12374);
#   [Li et al. 2024, EAGLE-2](https://arxiv.org/abs/2406.16858).
# - Heads:
#   [Cai et al. 2024, Medusa](https://arxiv.org/abs/2401.10774);
#   [Li et al. 2024, EAGLE](https://arxiv.org/abs/2401.15077);
#   [Li et al. 2025, EAGLE-3](https://arxiv.org/abs/2503.01840).
# - Targets trained for it:
#   [Gloeckle et al. 2024](https://arxiv.org/abs/2404.19737);
#   [DeepSeek-AI 2024, DeepSeek-V3](https://arxiv.org/abs/2412.19437);
#   [Elhoushi et al. 2024, LayerSkip](https://arxiv.org/abs/2404.16710).
# - All drafts in one pass:
#   [Chen et al. 2026, DFlash](https://arxiv.org/abs/2602.06036).
# - Without a model:
#   [He et al. 2023, REST](https://arxiv.org/abs/2311.08252);
#   [Oliaro et al. 2024, suffix decoding](https://arxiv.org/abs/2411.04975).
# - Other vocabularies:
#   [Timor et al. 2025](https://arxiv.org/abs/2502.05202).
# - Long contexts:
#   [MagicDec, 2024](https://arxiv.org/abs/2408.11049).
# - An overview, with a benchmark:
#   [Xia et al. 2024, Spec-Bench](https://arxiv.org/abs/2401.07851).
#
# Prompt lookup has no paper. It is
# [Saxena 2023](https://github.com/apoorvumang/prompt-lookup-decoding).
#
# ## Questions
#
# 1. Engine X reports an acceptance rate of 0.40 with gamma 8, engine Y 0.60 with gamma
#    3. Whose draft is better?
# 2. A hybrid model has 36 layers with a state and 12 with attention. What must happen
#    after a round in which two of four drafts were accepted?
# 3. With 100,000 tokens of context, why may a *larger* gamma pay in a full batch?
# 4. A sampler passes `distribution_of_one_round`. Name two ways in which the server
#    around it can still be wrong.
#
# <details><summary>Answers</summary>
#
# 1. Solve for alpha: 0.40 at gamma 8 gives about 0.79, and 0.60 at gamma 3 about 0.77.
#    They are alike, and X's is a little better.
# 2. The 12 caches get a shorter length. The 36 states become what they were after the
#    second accepted draft: from a snapshot, or from the one before the round and the
#    accepted tokens read again.
# 3. Reading the caches takes the time, and the tokens of a text share it: further rows
#    are free until arithmetic catches up.
# 4. The rows it gets are not the ones drawn from (another temperature, no top-k); the
#    cache is not rolled back; the same random numbers serve draft and judge; a budget
#    or an EOS cuts the text in the wrong place.
#
# </details>
#
# **Exercises**: none that is graded. Try this: take the rejection step of an engine you
# use, and enumerate it.

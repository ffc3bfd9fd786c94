# %% [markdown]
# # 12. Many texts
#
# A server writes many texts at once. Then a pass of the target is no longer idle, and
# speculation wants just this idle time. At the end of this notebook you will be able to
# explain
#
# - how texts of different lengths share one pass, and why no text notices the others,
# - how to predict what is left of the gain in a batch, and where it ends,
# - how one model runs on several processes, and why speculation saves them messages.
#
# Read beside it: `minispec/batches/`, `minispec/model/parallel.py`, and `batch_speedup`
# in `minispec/core/analysis.py`. Notebook 5 comes before this one.

# %%
import sys
import time

import minispec
import torch

if (folder := f"{minispec.__path__[0]}/../notebooks") not in sys.path:
    sys.path.append(folder)  # to run in any working directory

from figures import BARS, COLOURS, axes, curves, slots, titles
from minispec import (
    ModelDrafter,
    Request,
    Seeded,
    generate,
    generate_alone,
    load_model,
)
from minispec.batches.drafting import BatchModelDrafter, EachAlone, NoDrafts
from minispec.batches.ragged_cache import RaggedCache, prefill, ragged_mask, ragged_pass
from minispec.batches.speculative import Batch, generate_batch
from minispec.core.analysis import batch_speedup, roofline_cost, tokens_while_flat
from minispec.files.pair import SHIPPED
from minispec.model.parallel import keep_columns, keep_rows, part_of
from workbench import DRAFT, TARGET, encode, in_type, milliseconds, passages, words

# %% [markdown]
# ## One rectangle, several lengths
#
# A pass takes a rectangle of tokens. Texts in a batch have different lengths, and after
# a round of speculation each has grown by another number. So every row of the cache has
# a length of its own. New tokens are written after it, and shorter rows are padded.

# %%
texts = [encode(text) for text in ("Now my charms", "To be, or", "Who?")]
cache = RaggedCache(TARGET.new_cache(16, batch=len(texts)))
for text in texts:
    prefill(TARGET, cache.join(), text)  # all but the last token
drafts = [encode(text) for text in (" are", " not to be", " goes")]
new = [torch.cat([text[-1:], drafted[:3]]) for text, drafted in zip(texts, drafts)]
held = [row.length for row in cache.rows]
drawn = {}
for b, (text, tokens) in enumerate(zip(texts, new)):
    row = [(words([token]), "held") for token in text[:-1]]
    row += [(words([token]), "drafted") for token in tokens]
    row += [("pad", "stale")] * (max(map(len, new)) - len(tokens))
    drawn[f"text {b}"] = row + [("", "free")] * (11 - len(row))
slots(drawn, width=8.5)

# %% [markdown]
# **Figure 12.1.** A ragged cache before a pass. Plain: what each row holds. Hatched:
# its new tokens, the last committed one and some drafts. Dotted: padding, written into
# free slots, where it is stale like anything rolled back.
#
# The position of a new token is its slot in its own row. And the mask hides from it all
# slots after its own, so that it sees neither padding nor what another length left
# over:

# %%
cache.begin_pass([len(tokens) for tokens in new])
mask = ragged_mask(cache, TARGET)
panels = axes(3, width=9, height=2)
for b, ax in enumerate(panels):
    ax.imshow(mask[b, 0] == 0, cmap="Greys", vmax=1.6, aspect="auto")
    ax.set_yticks(range(mask.shape[2]))
    labels = [words([token]) for token in new[b]]
    ax.set_yticklabels(labels + ["pad"] * (mask.shape[2] - len(labels)))
    titles(ax, "may look at slot", "new token", f"text {b}, {held[b]} held")
    ax.grid(visible=False)

# %% [markdown]
# **Figure 12.2.** The mask of this pass, one panel for each text; dark: may look. A
# padded token looks somewhere, too (a softmax over nothing is not a number), but nobody
# reads what comes of it.
#
# ## A row is a text of its own
#
# Drafting and judging ask each row's own source of chance, in the order of a solo
# decode. So a text does not depend on its neighbours. Five texts, at most three at a
# time, so that a text that ends makes room for one that waits (continuous batching):
#
# **Predict, then run:** the same five, each alone with the same seed. How many come out
# equal?

# %%
target, small = in_type(TARGET, torch.float64), in_type(DRAFT, torch.float64)
requests = [
    Request(encode(text), n_tokens, gamma=gamma)
    for text, n_tokens, gamma in zip(passages(), (24, 10, 16, 20, 12), (4, 1, 2, 8, 4))
]
chances = [Seeded(seed) for seed in range(5)]
together = {
    done.index: done.generation.tokens
    for done in generate_batch(
        target, BatchModelDrafter(small), requests, chances, max_rows=3
    )
}
print("in the order in which they end:")
for index, tokens in together.items():
    alone = generate(target, ModelDrafter(small), requests[index], Seeded(index)).tokens
    same = "equal" if tokens == alone else "another text"
    print(f"  text {index}, {len(tokens)} tokens: {same}")
    assert tokens == alone

# %% [markdown]
# All of them. (In float64. In float32 a wider pass may round the last digit otherwise;
# see notebook 7.)
#
# ## What a pass costs
#
# A batch reads the weights once for all its texts, so the tokens of a pass should be
# cheap up to some number and then cost in proportion. Time passes of the target over
# 1 to 160 tokens (32 texts with 5 tokens each), and of the draft over 1 to 32, with 64
# tokens of each text in the caches:

# %%
SIZES, GAMMAS, HELD = [1, 2, 4, 8, 16, 32], [1, 2, 4], 64


def pass_of(model, n_texts, n_tokens):
    """A pass over the same number of tokens of each text, as a function to time."""
    cache = RaggedCache(model.new_cache(HELD + n_tokens, n_texts))
    for _ in range(n_texts):
        cache.join()
    tokens = [torch.arange(n_tokens)] * n_texts

    def work():
        for row in cache.rows:
            row.length = HELD  # whatever is there: only the time matters
        ragged_pass(model, cache, tokens)

    return work


works = {("draft", n, 1): pass_of(DRAFT, n, 1) for n in SIZES}
for width in (1, *(gamma + 1 for gamma in GAMMAS)):
    works |= {("target", n, width): pass_of(TARGET, n, width) for n in SIZES}
cost = milliseconds(works, repeats=9, calls=2)
target_ms = {}  # by tokens in the pass; the least of those that were timed
for (who, n, width), ms in cost.items():
    if who == "target":
        target_ms[n * width] = min(ms, target_ms.get(n * width, ms))
counts = sorted(target_ms)
[ax] = axes(width=6)
curves(
    ax, SIZES, {
        f"target, tokens of each text: {width}": [
            cost["target", n, width] for n in SIZES
        ]
        for width in (1, 3, 5)
    } | {"draft, 1": [cost["draft", n, 1] for n in SIZES]},
)
ax.set_xscale("log", base=2)
ax.set_xticks(SIZES, [str(n) for n in SIZES])
ax.set_ylim(0, None)
titles(ax, "texts in the batch", "milliseconds per pass")
print("tokens in a pass, ms, ms per token:")
for count in (1, 8, 32, 96, 160):
    print(f"{count:>5}{target_ms[count]:>9.2f}{target_ms[count] / count:>8.2f}")

# %% [markdown]
# **Figure 12.3.** The time of a pass on this machine. For one text, five tokens cost
# little more than one. For 32 texts, five tokens of each cost far more than one: the
# arithmetic has no idle time left.
#
# ## Tokens per second
#
# Now decode: the target alone (a drafter that proposes nothing) and with gamma 1, 2 and
# 4, for batches of 1 to 32 texts. Some rounds of a full batch are timed, without the
# pass over the prompts.
#
# **Predict, then run:** up to which batch size is gamma 4 faster than the target alone?


# %%
def rate(n_texts, gamma, n_rounds):
    """(tokens per second, accepted, judged) of some rounds of a full batch."""
    drafter = BatchModelDrafter(DRAFT)
    if gamma == 0:
        drafter = EachAlone(lambda text: NoDrafts(TARGET.config.vocab_size))
    room = (n_rounds + 1) * (gamma + 1) + 1
    some = [encode(text) for text in (passages() * 2)[:n_texts]]
    requests = [Request(prompt, room, gamma=max(gamma, 1)) for prompt in some]
    batch = Batch(TARGET, drafter, requests, n_texts)
    for index, request in enumerate(requests):
        list(batch.join(index, request, Seeded(index)))
    list(batch.round())  # the draft catches up with the prompt
    began = time.perf_counter()
    for _ in range(n_rounds):
        list(batch.round())
    seconds = time.perf_counter() - began
    rounds = [one for row in batch.rows for one in row.past[1:]]
    committed = sum(len(one.committed) for one in rounds)
    accepted, judged = sum(o.n_accepted for o in rounds), sum(o.judged for o in rounds)
    return committed / seconds, accepted, judged


cases = [(n, gamma) for n in SIZES for gamma in (0, *GAMMAS)]
runs = {case: [] for case in cases}
for repeat in range(3):  # by turns, and of each the one that was disturbed the least
    for n, gamma in cases:
        runs[n, gamma].append(rate(n, gamma, n_rounds=6 + 18 // n))
measured = {case: max(run[0] for run in some) for case, some in runs.items()}
everything = [run for some in runs.values() for run in some]
alpha = sum(run[1] for run in everything) / sum(run[2] for run in everything)
print(f"alpha {alpha:.2f}; tokens per second\ntexts" + "".join(
    f"{'alone' if gamma == 0 else f'gamma {gamma}':>10}" for gamma in (0, *GAMMAS)
))
for n in SIZES:
    print(f"{n:>5}" + "".join(f"{measured[n, gamma]:>10.0f}" for gamma in (0, *GAMMAS)))

# %% [markdown]
# Predict the same from alpha and the passes timed above: a round takes gamma passes of
# the draft over $n$ tokens and one of the target over $n(\gamma + 1)$, and the target
# alone one over $n$ for each token:

# %%
step = target_ms[1]


def predicted(n, gamma):
    """The speed-up that is left in a batch of n."""
    return batch_speedup(
        alpha, gamma, n,
        pass_cost=lambda tokens: target_ms[tokens] / step,
        draft_cost=lambda tokens: cost["draft", tokens, 1] / step,
    )


left, right = axes(2, width=9, height=3.2)
curves(
    left, SIZES, {
        "alone" if gamma == 0 else f"gamma {gamma}": [measured[n, gamma] for n in SIZES]
        for gamma in (0, *GAMMAS)
    },
)
left.set_ylim(0, None)
titles(left, "texts in the batch", "tokens per second, all texts")
print("texts" + "".join(f"{f'gamma {gamma}':>22}" for gamma in GAMMAS))
for n in SIZES:
    shown = ""
    for gamma in GAMMAS:
        gain = measured[n, gamma] / measured[n, 0]
        shown += f"{gain:>9.2f} ({predicted(n, gamma):.2f} exp.)"
    print(f"{n:>5}{shown}")
for gamma, marker, colour in zip(GAMMAS, "os^", COLOURS):
    gains = [measured[n, gamma] / measured[n, 0] for n in SIZES]
    guesses = [predicted(n, gamma) for n in SIZES]
    right.plot(SIZES, gains, marker + "-", color=colour, label=f"gamma {gamma}")
    right.plot(SIZES, guesses, marker + ":", color=colour, mfc="white")
right.axhline(1, color="0.5", linewidth=0.8)
right.set_ylim(0, None)
right.legend()
titles(right, "texts in the batch", "speed-up over the target alone")
for ax in (left, right):
    ax.set_xscale("log", base=2)
    ax.set_xticks(SIZES, [str(n) for n in SIZES])

# %% [markdown]
# **Figure 12.4.** Left: all texts together. Batching itself brings far more than
# speculation. Right: the speed-up that speculation adds, measured (solid) and predicted
# from the passes alone (dotted, hollow); the grey line is the target alone.
#
# The gain shrinks as the batch grows: a pass is ever less idle. The prediction knows
# passes only. What is done text by text (draw, judge, commit, roll back) is in the
# measured times as well, and a round does most of it once for several tokens. So a
# large batch gains more than predicted, at 16 and 32 texts clearly so. Up to 8 texts
# most gains are smaller than predicted. (One token can cost more than two: the library
# multiplies a single row by another kernel.)
#
# Where does it stop paying? Lay a straight line through the costs, a fixed part and one
# for each token, and go on with the batch until the prediction falls below 1. As it was
# too low for 16 and 32 texts, the real end probably comes later:


# %%
def line(points):
    """Through (tokens, ms), the least squares; neither part falls below 0."""
    x, y = (torch.tensor(axis, dtype=torch.float64) for axis in zip(*points))
    slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    slope = slope.clamp(0, y.mean() / x.mean())
    return lambda tokens: float(y.mean() + slope * (tokens - x.mean()))


target_line = line(list(target_ms.items()))
draft_line = line([(n, cost["draft", n, 1]) for n in SIZES])
for gamma in GAMMAS:
    gains = (
        batch_speedup(alpha, gamma, n, target_line, draft_line) for n in range(1, 257)
    )
    ends = next((n for n, gain in enumerate(gains, start=1) if gain < 1), "over 256")
    print(f"gamma {gamma}: a loss from about {ends} texts on")

# %% [markdown]
# On a GPU with much arithmetic for each byte of memory it goes on for longer. From the
# memory-bound model of notebook 5, with alpha 0.8 and a draft step that costs 0.05:

# %%
flat = tokens_while_flat(2, 3.35e12, 989e12)  # fp16 weights on the GPU of figure 1.1
BATCHES = [2**i for i in range(11)]


def on_gpu(n, gamma):
    return batch_speedup(
        0.8, gamma, n, lambda rows: roofline_cost(rows, flat),
        lambda rows: 0.05 * roofline_cost(rows, flat),
    )


gains = {f"gamma {gamma}": [on_gpu(n, gamma) for n in BATCHES] for gamma in GAMMAS}
[ax] = axes(width=6)
curves(ax, BATCHES, gains)
ax.axhline(1, color="0.5", linewidth=0.8)
ax.axvline(flat, color="0.5", linestyle=":")
ax.text(flat * 1.05, 2.6, "a pass is full", fontsize=8)
ax.set_xscale("log", base=2)
ax.set_xticks(BATCHES, [str(n) for n in BATCHES])
ax.set_ylim(0, None)
titles(ax, "texts in the batch", "speed-up, roofline model")
for name, values in gains.items():
    ends = next((n for n, gain in zip(BATCHES, values) if gain < 1), None)
    print(f"{name}: a loss from {ends} texts on, of these sizes")

# %% [markdown]
# **Figure 12.5.** The same for a GPU whose passes are flat up to 295 tokens. Each
# further draft is paid for once $n(\gamma + 1)$ tokens fill the pass. By this model a
# busy server should draft less, and one that is full should not draft at all. (Long
# contexts move the end to the right: notebook 5.)
#
# ## Half-truth: "three times as fast"
#
# A speed-up without the batch size says nothing. At batch 1 it is what a user alone on
# the machine feels. At batch 32 little of the gain is left, and in a full batch figure
# 12.5 predicts a loss. The two kinds of speed diverge here: *latency*, the time of one
# text, and *throughput*, the tokens per second of the machine. Speculation is made for
# the first, batching for the second.

# %%
for n in (1, 32):
    best = max((0, *GAMMAS), key=lambda gamma: measured[n, gamma])
    name = "the target alone" if best == 0 else f"gamma {best}"
    fast = measured[n, best]
    print(f"batch {n:>2}: fastest is {name}, {fast / n:.0f} tokens per second")
    print(f"          for each text, {fast:.0f} in all")

# %% [markdown]
# ## Several processes: cut the matrices
#
# A model that is too slow on one device is cut into parts; this way of cutting is
# called tensor parallelism (Shoeybi et al. 2019). Two matrices in a row need no
# exchange between them if the first is cut by *columns* and the second by *rows*: each
# process then has all it needs for its part of the middle, and the parts of the result
# are added. The MLP of the first layer, cut in two by hand:

# %%
plain, _ = load_model(SHIPPED / "target")  # TARGET's weights lie in another order
mlp = plain.h[0].mlp
x = torch.randn(1, 5, TARGET.config.n_embd, generator=torch.Generator().manual_seed(0))
parts = []
for rank in range(2):
    mine = in_type(mlp, torch.float32)  # a copy
    keep_columns(mine.c_fc, [part_of(mine.c_fc, 1, rank, 2)])
    keep_rows(mine.c_proj, rank, 2)
    parts.append(mine(x))
    sizes = [tuple(layer.weight.shape) for layer in (mine.c_fc, mine.c_proj)]
    print(f"process {rank}: c_fc {sizes[0]}, c_proj {sizes[1]}")
difference = float((parts[0] + parts[1] - mlp(x)).abs().max())
print(f"the sum of both is the whole MLP, to {difference:.0e}")
assert difference < 1e-4

# %% [markdown]
# Attention is cut in the same way, by heads: a head's query, key and value are columns
# of `c_attn`, and what it mixes goes into its rows of `c_proj`. So each process also
# caches only its own heads. The head over the vocabulary is cut by tokens.

# %%
E, V = TARGET.config.n_embd, TARGET.config.vocab_size
# name -> rows, columns, where it is cut: (axis, pieces that belong to process 0)
cuts = {
    "c_attn\nby heads": (E, 3 * E, "columns", 3),
    "c_proj\nby rows": (E, E, "rows", 1),
    "c_fc\nby columns": (E, 4 * E, "columns", 1),
    "c_proj\nby rows ": (4 * E, E, "rows", 1),
    "head\nby tokens": (E, V, "columns", 1),
}
panels = axes(len(cuts), width=9, height=2.6)
for ax, (name, (n_in, n_out, axis, n_pieces)) in zip(panels, cuts.items()):
    for piece in range(2 * n_pieces):
        (colour, hatch), share = BARS[piece % 2], 1 / (2 * n_pieces)
        place = {"edgecolor": "black", "color": colour, "hatch": hatch}
        label = f"process {piece}" if piece < 2 else None
        if axis == "columns":
            ax.bar(
                (piece + 0.5) * share * n_out, n_in, share * n_out, label=label, **place
            )
        else:
            bottom = (1 - (piece + 1) * share) * n_in
            ax.bar(n_out / 2, share * n_in, n_out, bottom=bottom, label=label, **place)
    ax.set(xlim=(-20, 4 * E + 20), ylim=(0, 4 * E), xticks=[n_out], yticks=[n_in])
    ax.grid(visible=False)
    titles(ax, "outputs", "inputs" if ax is panels[0] else "", name)
    if ax is panels[0]:
        ax.legend(fontsize=7.5)

# %% [markdown]
# **Figure 12.6.** The matrices of one layer of the shipped target, and its head, cut
# for two processes. `c_attn` is cut in each of its thirds: query, key, value.
#
# ## Count the messages
#
# After attention and after the MLP the parts are added up (an all-reduce), and the
# logits are collected once (an all-gather): $2L + 1$ exchanges for each pass. Their
# time hardly depends on how many numbers they move; what counts is how many there are.
# And a pass over five tokens exchanges as often as one over one.
#
# **Predict, then run:** how many exchanges does a token take, with the target alone and
# with gamma 4?

# %%
L = TARGET.config.n_layer
print(f"exchanges per pass: 2 x {L} + 1 = {2 * L + 1}")
print(f"{'':<10}{'passes':>8}{'tokens':>8}{'per token: exchanges':>22}{'numbers':>10}")
for gamma in (0, *GAMMAS, 8):
    decodes = []
    for seed, text in enumerate(passages()[:4]):
        request = Request(encode(text), 48, gamma=gamma or 1)
        if gamma == 0:
            decodes.append(generate_alone(TARGET, request, Seeded(seed)))
        else:
            decodes.append(generate(TARGET, ModelDrafter(DRAFT), request, Seeded(seed)))
    passes = sum(one.target_forwards for one in decodes)
    tokens = sum(one.emitted for one in decodes)
    fed = passes + sum(one.drafted for one in decodes)  # prompts left out
    moved = fed * (2 * L * E + V) / tokens
    name = f"gamma {gamma}" if gamma else "alone"
    per_token = (2 * L + 1) * passes / tokens
    print(f"{name:<10}{passes:>8}{tokens:>8}{per_token:>22.1f}{moved:>10,.0f}")

# %% [markdown]
# With speculation fewer passes also mean fewer exchanges: a second gain, which one
# process cannot have. More numbers travel in each, for drafts that are rejected; that
# is cheap as long as an exchange is mostly waiting. The draft is small and stays whole
# in every process. And no verdict is ever sent: all processes have the same sums and
# the same seed, and decide alike.
#
# ## Questions
#
# 1. Two texts in a batch have 10 and 200 tokens. What does the short one pay for the
#    long one?
# 2. Why must each row have its own source of chance?
# 3. Gamma 4 pays at batch 8 and is a loss at batch 16. Your server has 12 texts on
#    average. What should it do?
# 4. Cut `c_fc` by rows and `c_proj` by columns: why is that worse?
#
# <details><summary>Answers</summary>
#
# 1. Attention of its new tokens runs over 200 slots, most of them masked, and in a
#    padded pass it has as many new tokens as the row with the most. The weights, the
#    larger part, are read once for both.
# 2. With one for all, the numbers that a text draws would depend on how many its
#    neighbours drew before: the distribution stays right, but no text could be repeated
#    alone.
# 3. Choose gamma by the number of texts in the batch at the moment: a table from
#    measured passes, as above. Gamma is free to change with each round (notebook 5).
# 4. Cut by rows, `c_fc` gives parts of sums, which have to be added up *before* the
#    activation: one exchange more, and each process then has the whole middle.
#
# </details>
#
# **Exercises** (`python scripts/exercises.py next` shows them; in a notebook `from
# workbench import check`, `check(20)` grades): 20 (a batch of unequal texts). `python
# -m minispec plan --batch 64` computes figure 12.5 for your own model.

# %% [markdown]
# # 1. Why decoding is slow
#
# A language model writes one token at a time. At the end of this notebook you will be
# able to explain
#
# - why the time of a large model's token follows from the bytes of its weights and
#   hardly from the arithmetic,
# - why one pass over eight tokens costs far less than eight passes, and where that
#   ends,
# - why a model with a small part of the parameters does not cost just that part.
#
# The course has two models: a large *target*, whose text we want, and a small *draft*,
# which will guess for it. Guessing with one and checking with the other is *speculative
# decoding*. Both models are in `weights/`; together they are the shipped pair.
#
# Read beside it: `minispec/core/autoregressive.py` and, for the shapes,
# `minispec/model/gpt2.py`.

# %%
import sys
import time

import minispec
import torch

if (folder := f"{minispec.__path__[0]}/../notebooks") not in sys.path:
    sys.path.append(folder)  # to run in any working directory

from figures import axes, curves, titles
from minispec import GPT, GPTConfig, Request, Seeded, generate_alone
from minispec.core.analysis import seconds_per_token, tokens_while_flat
from workbench import DRAFT, TARGET, decode, encode, milliseconds

# %% [markdown]
# ## One token, one pass
#
# The shipped target continues a line. Every token needs the one before it, so every
# token is a whole pass through the model: embeddings, all blocks, and the head that
# makes logits. (The tokens are drawn; `Seeded(1)` makes the draws repeatable. What a
# pass needs to know of earlier tokens was kept from their own passes, so it is fed the
# new tokens alone. Notebook 2 is about that; until then, take it as given.)

# %%
prompt = encode("PORTIA:\nThe quality of mercy is not")
began = time.perf_counter()
text = generate_alone(TARGET, Request(prompt, max_new_tokens=48), Seeded(1))
seconds = time.perf_counter() - began

print(decode([*prompt.tolist(), *text.tokens]))
print()
print(f"{len(text.tokens)} tokens, {text.target_forwards} passes of the target")
print(f"{1e3 * seconds / len(text.tokens):.1f} milliseconds a token")

# %% [markdown]
# ## What a pass must read
#
# A pass over one token uses every weight once, for two operations (multiply, add). It
# must also *read* every weight once, from memory that is much slower than the
# arithmetic. If reading is all that takes time, a token costs at least
#
# $$\text{seconds per token} = \frac{\text{weights} \times \text{bytes per weight}}
# {\text{bytes per second}}$$
#
# The data sheet of NVIDIA's H100 (SXM) promises 3.35 TB/s and 989 TFLOP/s (10^12
# operations a second, in 16 bits); an ordinary laptop reads 0.1 TB/s. A model that does
# not fit one device is spread over several, whose bandwidths add up.
#
# **Predict, then run:** which takes longer for a 70 B model on the H100, reading the
# weights or the arithmetic, and how many times as long?

# %%
H100 = {"bytes_per_second": 3.35e12, "flops_per_second": 989e12}
models = {
    "7 B, 16 bit": (7e9, 2),
    "70 B, 16 bit": (70e9, 2),
    "70 B, 4 bit": (70e9, 0.5),
    "shipped target, 32 bit": (TARGET.n_parameters, 4),
    "shipped draft, 32 bit": (DRAFT.n_parameters, 4),
}
print(f"{'':<24}{'weights':>12}{'reading them at':>29}{'arithmetic at':>17}")
print(f"{'':<36}{'3.35 TB/s':>15}{'0.1 TB/s':>14}{'989 TFLOP/s':>17}")
for name, (n_weights, size) in models.items():
    on_gpu, on_laptop = [
        1e3 * seconds_per_token(n_weights, size, bandwidth)
        for bandwidth in (H100["bytes_per_second"], 0.1e12)
    ]
    arithmetic = 1e3 * 2 * n_weights / H100["flops_per_second"]
    shown = f"{on_gpu:>12.4g} ms{on_laptop:>11.4g} ms{arithmetic:>14.2g} ms"
    print(f"{name:<24}{n_weights * size / 1e9:>9.4g} GB{shown}")

# %% [markdown]
# For a token of a 70 B model the GPU moves bytes for 42 milliseconds and calculates for
# 0.14. So while the weights are on their way, could the arithmetic units not work on
# more than one token?
#
# ## How many tokens fit into one reading
#
# A pass over $T$ tokens reads every weight once and uses it $T$ times. Reading and
# arithmetic take equally long at
#
# $$T = \frac{\text{bytes per weight} \times \text{operations per second}}
# {2 \times \text{bytes per second}}$$
#
# whatever the model's size. Up to there, more tokens in a pass are nearly free.

# %%
free = tokens_while_flat(2, **H100)
print(f"a pass on the GPU of the data sheet may hold about {free:.0f} tokens")

numbers = torch.ones(2**26)  # 268 MB, more than any cache of the processor holds
square = torch.ones(1024, 1024)
times = milliseconds(
    {"read": lambda: numbers.sum(), "multiply": lambda: square @ square}, calls=1
)
here = {
    "bytes_per_second": 4 * len(numbers) / (times["read"] / 1e3),
    "flops_per_second": 2 * 1024**3 / (times["multiply"] / 1e3),
}
free_here = tokens_while_flat(4, **here)
print(
    f"this machine reads {here['bytes_per_second'] / 1e9:.0f} GB/s and does "
    f"{here['flops_per_second'] / 1e9:.0f} billion operations a second: "
    f"about {free_here:.0f} tokens of 32-bit weights"
)

# %%
lengths = [2**i for i in range(13)]
reading = 1e3 * seconds_per_token(70e9, 2, H100["bytes_per_second"])
computing = [1e3 * 2 * 70e9 * T / H100["flops_per_second"] for T in lengths]
[ax] = axes(width=5.5)
curves(
    ax,
    lengths,
    {
        "one pass over all of them": [max(reading, ms) for ms in computing],
        "one pass for each": [reading * T for T in lengths],
    },
)
ax.set(xscale="log", yscale="log")
titles(ax, "tokens", "time (ms)", "70 B weights, 16 bit, 3.35 TB/s, 989 TFLOP/s")

# %% [markdown]
# **Figure 1.1.** The memory-bound model of one pass, both axes logarithmic. The curve
# is flat as long as reading the weights takes longer than the arithmetic; it bends
# where they are equal. (Reading and arithmetic go on at the same time, so a pass takes
# the longer of the two.) Speculative decoding lives on the flat part. A server with
# many users fills the same flat part with *their* tokens, so the more users share a
# pass, the less is left to speculate with. (This is a model of the weights alone;
# notebook 5 adds what each user's text takes.)
#
# ## The same, measured
#
# Now the real thing: passes of the shipped pair over 1, 2, 4, 8 and 16 tokens.
# `milliseconds` measures all works by turns, many times, and takes each one's median.
#
# **Predict, then run:** how many times as long as a pass over one token will a pass
# over eight take here?

# %%
ids = encode("When shall we three meet again, in thunder, lightning, or in rain?")
widths = [1, 2, 4, 8, 16]


def passes(model: GPT) -> dict[int, float]:
    """Milliseconds of a pass over so many tokens, head included."""
    works = {str(T): lambda T=T: model(ids[None, :T]) for T in widths}
    return {int(T): ms for T, ms in milliseconds(works, repeats=25).items()}


by_target, by_draft = passes(TARGET), passes(DRAFT)
print("tokens   target (ms)   draft (ms)")
for T in widths:
    print(f"{T:>6}{by_target[T]:>14.2f}{by_draft[T]:>13.2f}")

# %%
left, right = axes(2)
curves(
    left,
    widths,
    {"target": list(by_target.values()), "draft": list(by_draft.values())},
)
left.set(ylim=(0, None), xticks=widths)
titles(left, "tokens in the pass", "time of the pass (ms)")
curves(
    right,
    widths,
    {
        "one pass for each": widths,
        "one pass, target": [ms / by_target[1] for ms in by_target.values()],
        "one pass, draft": [ms / by_draft[1] for ms in by_draft.values()],
    },
)
right.set(ylim=(0, None), xticks=widths)
titles(right, "tokens in the pass", "time (passes over one token)")

# %% [markdown]
# **Figure 1.2.** Left: what a pass costs. Right: the same in units of a pass over one
# token; the steep line is the cost of decoding one by one. On a processor the flat part
# is not quite flat: one token makes products of a matrix and a vector, several make
# products of two matrices, for which the library has other routines. Nor does the curve
# bend at the number of tokens computed above for this machine: for so small a model
# reading the weights is only a part of the time, as the end of this notebook shows.

# %%
print(
    f"eight tokens in one pass cost {by_target[8] / by_target[1]:.1f} times one token, "
    "and eight passes cost 8"
)

# %% [markdown]
# That is the whole opportunity. If somebody *guessed* the next tokens, the target could
# look at all the guesses in one pass, for far less than a pass each. The rest of this
# course is about guessing well and about keeping only what may be kept.
#
# ## Half-truth: "a draft with 1/67 of the parameters costs 1/67"
#
# Reading weights is not the only cost that does not depend on the number of tokens. A
# pass is also a sequence of operations that each take a while to *start*: here the
# interpreter and the library, on a GPU the launch of kernels. A model as deep as the
# target and as narrow as can be shows that part alone.

# %%
narrow = GPT(GPTConfig(12, 4, 8, TARGET.config.vocab_size, 512))
narrow.initialize(torch.Generator().manual_seed(0))
fixed = passes(narrow)[1]
print(f"{'':<16}{'layers':>6}{'width':>7}{'parameters':>12}{'one token':>14}")
for name, model, ms in [
    ("target", TARGET, by_target[1]),
    ("deep and narrow", narrow, fixed),
    ("draft", DRAFT, by_draft[1]),
]:
    L, E = model.config.n_layer, model.config.n_embd
    print(f"{name:<16}{L:>6}{E:>7}{model.n_parameters:>12,}{ms:>11.2f} ms")

smaller = TARGET.n_parameters / DRAFT.n_parameters
read = 1e3 * seconds_per_token(TARGET.n_parameters, 4, here["bytes_per_second"])
print(
    f"\nthe draft has 1/{smaller:.0f} of the target's parameters "
    f"and takes 1/{by_target[1] / by_draft[1]:.0f} of its time"
)
print(
    f"a token of the target: reading its weights {read:.1f} ms, starting operations "
    f"about {fixed:.1f} ms; measured {by_target[1]:.1f} ms"
)

# %% [markdown]
# The deep and narrow model has less than a sixth of the draft's parameters and is
# slower: at this size a draft is cheap because it has few *layers*, hence few
# operations to start. What decides is the ratio of times, not of parameters (notebook 5
# calls it the cost ratio $c$), and it has to be measured. So has the time itself: no
# program can avoid reading the weights, so the formula is a lower bound and not a
# prediction, and the smaller the model, the more the rest counts. (What neither reading
# nor starting explains is mostly the products themselves: a product of a matrix and a
# vector reads these small matrices more slowly than a plain sum reads memory.)
#
# One question is left open here. Figure 1.1 says that a pass over a few tokens takes as
# long as a pass over one, because the weights are read once for all of them. A program
# must also *do* that. A plain product of nine rows on two cores takes about twice as
# long as one of a single row; the same product with the weights in another layout 1.4
# times as long. This, more than any model, decides where speculation pays; notebook 5
# measures it.
#
# ## Questions
#
# 1. In the model of figure 1.1 memory gets twice as fast, arithmetic stays as it is.
#    What happens to the time of a token, and to the number of tokens that fit into one
#    reading?
# 2. Quantising weights from 16 to 4 bits: what happens to each of the two?
# 3. A server runs 200 users' sequences in one pass on the GPU of figure 1.1. How much
#    room is left for speculation?
#
# <details><summary>Answers</summary>
#
# 1. The time halves, and so does the number: there is less waiting to fill.
# 2. Both fall to a quarter, as long as the arithmetic is still done in 16 bits.
# 3. The pass is flat up to about 300 tokens, and one each is already 200: a single
#    drafted token for everybody would leave the flat part.
#
# </details>
#
# **Exercises** (`python scripts/exercises.py next` shows them; in a notebook `from
# workbench import check`, `check(1)` grades): 1 (logits to probabilities).

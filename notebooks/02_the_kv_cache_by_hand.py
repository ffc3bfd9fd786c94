# %% [markdown]
# # 2. The KV cache by hand
#
# At the end of this notebook you will be able to explain
#
# - what one row of the cache is, and why it never changes once it is there,
# - what a token costs with the cache and without,
# - why taking tokens back is free for a transformer, and what is left behind in memory.
#
# Read beside it: `minispec/model/attention.py`, `minispec/model/kv_cache.py`,
# `minispec/core/rollback.py`.

# %%
import sys
import time

import minispec
import torch

if (folder := f"{minispec.__path__[0]}/../notebooks") not in sys.path:
    sys.path.append(folder)  # to run in any working directory

from figures import axes, curves, slots, titles
from minispec import ModelDrafter, Sampling, Seeded, reject
from minispec.core.rollback import rollback
from minispec.core.verify import verify
from minispec.model.attention import causal_mask, open_attention
from minispec.show.terminal import quoted
from workbench import DRAFT, TARGET, TOKENIZER, encode, in_type, milliseconds, words

# %% [markdown]
# ## Attention, one token at a time
#
# Attention makes a *query*, a *key* and a *value* from every position. The output at
# position $i$ mixes the values of positions $0 \ldots i$, weighted by how well their
# keys fit the query of $i$:
#
# $$\text{out}_i = \sum_{j \le i} \operatorname{softmax}_j
# \left(\frac{q_i \cdot k_j}{\sqrt{D}}\right) v_j$$
#
# This is one attention *head*, and $D$ is the length of its queries and keys; every
# block has H of them side by side. (In the code S is the number of positions that a
# cache holds, and T the number of those that are fed.)
#
# Position $i$ needs its own query, and *all* keys and values so far. So keep those two
# in a list, and work through the text token by token. Here for the first block of the
# target, in float64, written by hand this once. (GPT-2's names: `wte` and `wpe` are the
# embeddings of tokens and positions, `h` the blocks, `ln_1` a block's first norm,
# `c_attn` the matrix that makes query, key and value.)

# %%
model = in_type(TARGET, torch.float64)
tokens = encode("First Witch:\nWhen shall we three meet again")
block, config = model.h[0], model.config
H, D = config.n_head, config.n_embd // config.n_head


def query_key_value(position: int) -> list[torch.Tensor]:  # -> three times [H, D]
    """What the first block makes of one token, knowing no other."""
    x = model.wte.weight[tokens[position]] + model.wpe.weight[position]
    parts = block.attn.c_attn(block.ln_1(x)[None, None])
    return list(parts.view(3, H, D))


keys, values, by_hand = [], [], []
for position in range(len(tokens)):
    query, key, value = query_key_value(position)
    keys.append(key)
    values.append(value)
    so_far, mixed = torch.stack(keys, dim=1), torch.stack(values, dim=1)  # [H, S, D]
    weights = (so_far @ query[:, :, None] / D**0.5).softmax(dim=1)  # [H, S, 1]
    by_hand.append((weights * mixed).sum(dim=1))  # [H, D]

# %% [markdown]
# No mask was needed: a token that has not been written yet cannot be looked at. The
# module does it for all positions at once, with a mask that hides the future. The
# results are the same.

# %%
everything = [query_key_value(position) for position in range(len(tokens))]
three = [torch.stack(part, dim=1)[None] for part in zip(*everything)]  # [1, H, T, D]
mask = causal_mask(len(tokens), len(tokens), three[0])
at_once = open_attention(*three, mask, D**-0.5)[0].transpose(0, 1)  # [T, H, D]

difference = (torch.stack(by_hand) - at_once).abs().max()
print(f"largest difference: {difference:.1e}")
assert difference < 1e-12

# %% [markdown]
# ## A row never changes
#
# A *row* of the cache is what it keeps of one token: a key and a value in every head of
# every layer. A row depends on the tokens up to this one and on nothing that comes
# later: in the first block on the token itself alone, in the others on what the blocks
# below made of it, which looked backwards only. That is why we may keep it.
# Compare the rows of the first 8 tokens, once computed alone and once as the beginning
# of the whole line. They are the same but for the rounding of float64, about 1e-15:

# %%
short, long = model.new_cache(), model.new_cache()
model(tokens[None, :8], short)
model(tokens[None], long)
for layer in (0, 5, 11):
    of_keys = (short.keys[layer] - long.keys[layer])[:, :, :8].abs().max()
    of_values = (short.values[layer] - long.values[layer])[:, :, :8].abs().max()
    change = max(of_keys, of_values)
    print(f"layer {layer:>2}: the first 8 rows differ by at most {change:.1e}")
    assert change < 1e-12

# %% [markdown]
# How large is a row?

# %%
cache = TARGET.new_cache()
L = config.n_layer
print(f"keys of one layer, [batch, heads, slots, width]: {list(cache.keys[0].shape)}")
print(f"one token, 2 x {L} layers x {H} heads x {D} x 4 bytes: {cache.bytes_per_token}")
assert cache.bytes_per_token == 2 * L * H * D * 4

small = DRAFT.config
small_width = small.n_embd // small.n_head
print(f"\n{'':<38}{'bytes a token':>14}{'512 tokens':>15}")
for name, layers, heads, width, size in [
    ("shipped target, 32 bit", L, H, D, 4),
    ("shipped draft, 32 bit", small.n_layer, small.n_head, small_width, 4),
    ("GPT-2 XL, 16 bit", 48, 25, 64, 2),
    ("Llama 2 7B, 16 bit", 32, 32, 128, 2),
    ("Llama 2 70B, 16 bit, 8 heads of keys", 80, 8, 128, 2),
]:
    row = 2 * layers * heads * width * size
    print(f"{name:<38}{row:>14,}{row * 512 / 1e6:>12.1f} MB")

# %% [markdown]
# (Models such as Llama 2 70B let several query heads share one head of keys and values,
# so that the larger model has the smaller row.)
#
# ## With and without
#
# Without a cache the next token costs a pass over the whole text so far. With it, a
# pass over one token.
#
# **Predict, then run:** after 480 tokens, how many times cheaper does the cache make
# the next one?

# %%
lengths = [32, 64, 128, 256, 384, 480]
ids = torch.arange(512)[None] % config.vocab_size
full = TARGET.new_cache()
TARGET(ids[:, :480], full)


def with_cache(n: int) -> None:
    """The token after n, whose first n - 1 are in the cache."""
    full.length = n - 1
    TARGET(ids[:, n - 1 : n], full)


works = {f"with {n}": lambda n=n: with_cache(n) for n in lengths}
works |= {f"without {n}": lambda n=n: TARGET(ids[:, :n], last=1) for n in lengths}
times = milliseconds(works, repeats=7, calls=2)

[ax] = axes(width=5.5)
curves(
    ax,
    lengths,
    {
        "without a cache": [times[f"without {n}"] for n in lengths],
        "with a cache": [times[f"with {n}"] for n in lengths],
    },
)
ax.set(ylim=(0, None), xticks=lengths)
titles(ax, "tokens so far", "time of the next token (ms)")

# %% [markdown]
# **Figure 2.1.** The cost of one more token against the length of the text. Without a
# cache it grows with the text, so that the cost of a whole text grows with its length
# squared. With a cache the curve is almost flat: the query of one token still looks at
# all keys, but next to reading the weights that is little.

# %%
ratio = times["without 480"] / times["with 480"]
print(f"after 480 tokens the cache makes a token {ratio:.0f} times cheaper")

# %% [markdown]
# ## Rollback, drawn
#
# Speculative decoding writes rows for tokens that may be rejected. Here is one real
# round: the draft guesses four tokens, the target scores them in one pass, accepts two,
# and adds a third token of its own. (Seeds are tried until a round comes out like
# that.) Notebook 3 goes through the same steps slowly; here watch the caches. Each
# model has its own, and each is always fed the part of the text so far, the *prefix*,
# that its cache has not seen: `prefix[cache.length:]`.

# %%
prefix = encode("First Witch:\nWhen shall")
n, K = len(prefix), 4
seed, n_accepted = -1, -1
while n_accepted != 2:
    seed += 1
    chance, cache, drafter = Seeded(seed), TARGET.new_cache(24), ModelDrafter(DRAFT)
    drafter.begin(cache)
    TARGET(prefix[None, :-1], cache)  # what earlier rounds left behind
    pictures = {"before": cache.length}
    proposal = drafter.propose(prefix, K, chance)
    target_probs = verify(TARGET, cache, prefix, proposal.tokens, Sampling())
    pictures["after verification"] = cache.length
    verdict = reject(proposal.tokens, proposal.draft_probs, target_probs, chance)
    n_accepted = verdict.n_accepted

after_drafting = drafter.cache.length
for each in (cache, drafter.cache):
    rollback(each, n + n_accepted)
pictures["after rollback"] = cache.length

written = [*prefix.tolist(), *proposal.tokens.tolist()]
print("drafted:", words(proposal.tokens), " accepted:", n_accepted)
print("then, from the target:", words([verdict.next_token]))
for name, length in pictures.items():
    print(f"{name:<20} length {length}")
print(
    f"the draft's own cache: {after_drafting} after drafting, then "
    f"{drafter.cache.length}"
)
assert pictures["after rollback"] == n + n_accepted


# %%
def row_of_slots(length: int, filled: int) -> list[tuple[str, str]]:
    """`filled` slots were ever written, `length` of them count."""
    row = []
    for slot in range(n + K + 1):
        text = quoted(TOKENIZER, written[slot])[1:-1] if slot < filled else ""
        kind = "held" if slot < length else "stale" if slot < filled else "free"
        if n <= slot < length:
            kind = "drafted"
        row.append((text, kind))
    return row


slots(
    {
        "before": row_of_slots(pictures["before"], n - 1),
        "after verification": row_of_slots(pictures["after verification"], n + K),
        "after rollback": row_of_slots(pictures["after rollback"], n + K),
    },
    width=9.5,
)

# %% [markdown]
# **Figure 2.2.** The target's cache in one round. Blue-grey: rows of the text before
# the round. Hatched: rows of this round's drafts; those still hatched after rollback
# now belong to the text. Pale text: stale rows, beyond `length`; their bytes are still
# there, but nothing reads them and the next append overwrites them. White: free slots.
# Before the round the last token of the text is missing on purpose: it is always fed
# next, since a model needs at least one token to say what follows. After rollback the
# same holds again: the token that replaced the rejected one is *committed*, that is
# part of the text for good, but not yet fed. Its row will overwrite the first stale one
# in the next round. (The draft's cache, not drawn, ran ahead by one row less: the draft
# drew its last proposal and never fed it to itself.)
#
# The rollback itself sets one integer, `length`. Two checks that this is enough: the
# rows that stay are those that a fresh pass over the kept text would have written, and
# the stale rows may hold *anything*, even NaN.

# %%
kept = torch.tensor([written[: n + n_accepted]])
fresh = TARGET.new_cache(24)
TARGET(kept, fresh)
pairs = zip([*cache.keys, *cache.values], [*fresh.keys, *fresh.values])
rows = [(a - b)[:, :, : cache.length] for a, b in pairs]
largest = max(float(row.abs().max()) for row in rows)
print(f"kept rows and fresh rows differ by at most {largest:.1e} (float32 rounding)")
assert largest < 1e-3

for slab in [*cache.keys, *cache.values]:
    slab[:, :, cache.length :] = torch.nan
next_token = torch.tensor([[verdict.next_token]])
after_nan, after_fresh = TARGET(next_token, cache), TARGET(next_token, fresh)
assert after_nan.isfinite().all()
assert torch.allclose(after_nan, after_fresh, atol=1e-3)
print("with NaN in every free slot the next logits are finite, and the same")

# %% [markdown]
# ## Half-truth: "rejected tokens mean the cache has to be rebuilt"
#
# That would be so if a row depended on what comes after it: then the rejected tokens
# would have spoilt the kept rows. They do not, as was just checked.
#
# **Predict, then run:** how long does it take to take back four tokens, and how long
# would it take to rebuild the other 124?

# %%
cache = TARGET.new_cache()
TARGET(ids[:, :128], cache)
began = time.perf_counter()
for _ in range(1000):
    cache.length = 128
    rollback(cache, 124)
undo = (time.perf_counter() - began) / 1000
rebuild = milliseconds({"rebuild": lambda: TARGET(ids[:, :124])}, repeats=7)["rebuild"]
print(f"rolling back:    {1e3 * undo:.4f} ms")
print(f"rebuilding 124:  {rebuild:.1f} ms")

# %% [markdown]
# ## Half-truth: "rollback is free"
#
# It is free because attention keeps one row for *each* token. A model with *recurrent
# state* (state-space models such as Mamba, linear attention, the hybrids that mix such
# layers with attention) keeps one state for the whole past, and each token is added to
# it. In its simplest form, with the keys and values from above:

# %%
state = torch.zeros(H, D, D, dtype=torch.float64)
states = []
for key, value in zip(keys, values):
    state = 0.9 * state + key[:, :, None] * value[:, None, :]  # old tokens fade
    states.append(state)
print(f"the state after any number of tokens: {state.numel():,} numbers per layer")
print(f"the cache after 512 tokens: {2 * 512 * H * D:,} numbers per layer")

# %% [markdown]
# Such a state has no `length` that could go back: the last four tokens are mixed into
# it. (Here one could subtract them and divide by 0.9. But real models also decay by
# factors close to 0, and floating point does not give back what faded.) So such a model
# has three ways to take tokens back, and pays for each: keep a copy of the state after
# every drafted token (here `states`: memory, and writing it); keep the state before the
# round and run the accepted tokens through it once more (time); or keep the small
# inputs of the drafted tokens and apply only the accepted ones when the round ends.
#
# ## Questions
#
# 1. Why is there no cache of *queries*?
# 2. After a round in which all four drafts are accepted, the draft model's cache is one
#    token shorter than the target's, and rolling back to a greater length changes
#    nothing. Why is it shorter, and why does no code have to treat this specially?
# 3. What would break if `rollback` took the *number* of rejected tokens instead of a
#    length?
#
# <details><summary>Answers</summary>
#
# 1. A query is used once, when its own token is processed. Later tokens ask with their
#    own.
# 2. The draft never fed itself its last proposal: it drew it and stopped. Each model is
#    always fed `prefix[cache.length:]`, which is then simply two tokens instead of one.
# 3. The two caches have run ahead by different amounts, so one number cannot be right
#    for both; and calling it twice would take back twice. A length can be set again and
#    again.
#
# </details>
#
# **Exercises** (`python scripts/exercises.py next` shows them; in a notebook `from
# workbench import check`, `check(2)` grades): 2 (attention over the cache), 3 (append
# and advance), 4 (the autoregressive loop).

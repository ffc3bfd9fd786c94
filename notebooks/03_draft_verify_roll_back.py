# %% [markdown]
# # 3. Draft, verify, roll back
#
# Greedy decoding first. Before the softmax, logits are divided by a *temperature*; the
# lower it is, the more probability goes to the most likely token. At temperature 0
# every model simply takes that token, and chance plays no part. At the end of this
# notebook you will be able to explain
#
# - the four parts of a round, with what goes in and what comes out of each,
# - why the text is the target's own, token for token, however bad the draft is,
# - what a good draft buys: fewer passes of the target.
#
# Read beside it: `minispec/draft.py`, `verify.py`, `rejection.py`, `rollback.py`,
# `speculative.py`.

# %%
import torch
from figures import axes, slots, titles
from minispec import autoregressive, speculative
from minispec.draft import ModelDrafter, draft
from minispec.generation import Generation
from minispec.gpt2 import GPT
from minispec.randomness import Seeded
from minispec.rejection import acceptance_ratios, reject
from minispec.rollback import rollback
from minispec.sampling import Sampling
from minispec.trace import Paint, quoted, round_table
from minispec.verify import verify
from workbench import DRAFT, TARGET, TOKENIZER, decode, encode, in_type, words

# %% [markdown]
# All of this notebook is computed in float64. Greedy decoding compares logits, and in
# float32 two that are almost equal may change places from one way of computing them to
# another; notebook 7 is about that, and float64 keeps it out of the way here. A mild
# penalty on tokens that are already in the text keeps a small model from going in
# circles; it is part of how both models turn logits into probabilities.
#
# Letters: $n$ tokens are in the text; gamma is how many are to be drafted in a round, K
# how many were (near the end of a text fewer); V is the size of the vocabulary.

# %%
target, small = in_type(TARGET, torch.float64), in_type(DRAFT, torch.float64)
greedy, chance = Sampling(temperature=0, repetition_penalty=1.3), Seeded(0)
prefix = encode("PORTIA:\nThe quality of mercy")
n, gamma = len(prefix), 4

target_cache, draft_cache = target.new_cache(64), small.new_cache(64)
target.trunk(prefix[None, :-1], target_cache)  # as earlier rounds would have left them:
small.trunk(prefix[None, :-1], draft_cache)  # all of the text but its last token
print(n, "tokens:", words(prefix))

# %% [markdown]
# ## One round in slow motion
#
# **1. Draft.** The small model continues the text by four tokens, one cheap pass each.
# A proposal is the tokens *and* the distributions they were drawn from; at temperature
# 0 each distribution has all its mass on one token.

# %%
proposal = draft(small, draft_cache, prefix, gamma, greedy, chance)
print("drafted:", words(proposal.tokens))
print("rows of the draft:", list(proposal.draft_probs.shape), "[K, V]")
after_draft = draft_cache.length

# %% [markdown]
# **2. Verify.** The target is fed the last token of the text and all four drafts, in
# one pass. Row $i$ is what it says after the text and the first $i$ drafts: five rows
# for four drafts, since something also follows the last one.

# %%
target_probs = verify(target, target_cache, prefix, proposal.tokens, greedy)
print("rows of the target:", list(target_probs.shape), "[K + 1, V]")
print("the target's own choices:", words(target_probs.argmax(dim=-1)))
after_verification = target_cache.length

# %% [markdown]
# **3. Reject.** Keep drafts as long as the target would have chosen the same; at the
# first that it would not, take the target's choice instead. This is the general rule
# (keep with chance target / draft, the *ratio*; notebook 4) in its simplest case, where
# every ratio is 0 or 1. If all drafts are kept, the target's last row gives one token
# more.

# %%
ratios = acceptance_ratios(proposal.tokens, proposal.draft_probs, target_probs)
verdict = reject(proposal.tokens, proposal.draft_probs, target_probs, chance)
print("ratios:", ratios.tolist())
print("accepted:", verdict.n_accepted, " then:", words([verdict.next_token]))

# %% [markdown]
# The last ratio is 1 and does not count: what stands behind a refusal was a guess about
# a text that has not come about.
#
# **Commit**, and **4. roll back** both caches to all of the new text but its last
# token.

# %%
new = [*proposal.tokens[: verdict.n_accepted].tolist(), verdict.next_token]
committed = torch.cat([prefix, torch.tensor(new)])
for cache in (target_cache, draft_cache):
    rollback(cache, len(committed) - 1)
print(f"the text grew by {len(new)}: {decode(committed)!r}")
print("lengths of the caches:", target_cache.length, draft_cache.length)

# %%
text = [*prefix.tolist(), *proposal.tokens.tolist()]


def picture(length: int, written: int) -> list[tuple[str, str]]:
    """The last slots of a cache that ever held `written` rows, `length` now."""
    kinds = ["held" if i < min(length, n) else "drafted" for i in range(length)]
    kinds += ["stale"] * (written - length) + ["free"] * (n + gamma + 1 - written)
    shown = [quoted(TOKENIZER, t)[1:-1] for t in text[:written]]
    return list(zip(shown + [""] * (len(kinds) - written), kinds))


slots(
    {
        "draft: drafted": picture(after_draft, after_draft),
        "draft: rolled back": picture(draft_cache.length, after_draft),
        "target: verified": picture(after_verification, after_verification),
        "target: rolled back": picture(target_cache.length, after_verification),
    },
    width=9.5,
)

# %% [markdown]
# **Figure 3.1.** Both caches in this round. Grey: rows of the text before it. Hatched:
# rows of its drafts; those still hatched after rollback now belong to the text. Pale
# text: stale rows of refused tokens. White: free slots. The draft never fed itself its
# own last proposal (it drew it and stopped), so it had run ahead by one row less than
# the target. After rollback both hold all of the new text but its last token.
#
# ## The loop
#
# A decode is rounds until the text ends: `speculative.generate`. Beside it the target
# alone.

# %%
prompt = encode("PORTIA:\nThe quality of mercy")
N_TOKENS = 60
alone = autoregressive.generate(target, prompt, N_TOKENS, Seeded(0), greedy)


def speculate(model: GPT, gamma: int, sampling: Sampling) -> Generation:
    """The same text, drafted by `model`."""
    drafter = ModelDrafter(model, sampling)
    return speculative.generate(
        target, drafter, prompt, gamma, N_TOKENS, Seeded(0), greedy
    )


fast = speculate(small, gamma, greedy)
assert fast.tokens == alone.tokens
print(decode([*prompt.tolist(), *fast.tokens]))
print()
print(f"{alone.target_forwards} passes of the target alone")
print(f"{fast.target_forwards} passes with a draft, and the same {N_TOKENS} tokens")
print("drafted in each round:", [len(round.drafted) for round in fast.rounds])

# %% [markdown]
# (The last round drafted nothing: of the *budget* of 60 tokens one was left, and a
# round drafts no more than can still be used.)
#
# The first 14 rounds: what was kept of the drafts, and the token that came on top. It
# is a *bonus* where all drafts were kept; otherwise it takes the place of the first
# that was refused and is called *resampled*, since at temperatures above 0 it is drawn.

# %%
for number, round in enumerate(fast.rounds[:14], start=1):
    kept = words(round.committed[: round.n_accepted]) or "(nothing)"
    last = f"{round.extra}: {words(round.committed[-1:])}" if round.extra else "(end)"
    print(f"{number:>3}  {kept:<40} {last}")

# %% [markdown]
# And two rounds in numbers, with the probability that either model gave each draft (at
# temperature 0 all are 0 or 1). *Unread* is what stands behind a refusal and is never
# judged:

# %%
refused = [i for i, round in enumerate(fast.rounds) if round.extra == "resampled"]
for i in refused[:2]:
    print(round_table(fast.rounds[i], i + 1, TOKENIZER, Paint(False)))


# %%
def staircase(generation: Generation) -> list[int]:
    """Tokens written after 0, 1, 2, ... passes of the target."""
    heights = [0]
    for round in generation.rounds:
        heights.append(heights[-1] + len(round.committed))
    return heights


[ax] = axes(width=5.5, height=3)
for gamma_shown, dash, grey in [(8, "-", "0"), (4, "--", "0.3"), (1, "-.", "0.5")]:
    heights = staircase(speculate(small, gamma_shown, greedy))
    ax.step(range(len(heights)), heights, dash, color=grey, where="post",
            label=f"gamma {gamma_shown}")
ax.plot([0, N_TOKENS], [0, N_TOKENS], ":", color="0.6", label="target alone")
ax.legend()
titles(ax, "passes of the target", "tokens written")

# %% [markdown]
# **Figure 3.2.** The same 60 tokens, by passes of the target, for three draft lengths.
# Each step is a round; its height is what the round committed, at least 1 and at most
# gamma + 1. Steep stretches are easy text. (Passes are not yet time: drafting costs
# something too, and notebook 5 puts it on the scale.)
#
# ## Half-truth: "the small model changes the output"
#
# It cannot. Every token that is committed is one the target chose, given exactly the
# text before it. To see it, let worse and worse drafts try: one that samples at
# temperature 5, one with random weights that never learned anything, and an adversary
# that always proposes what the target likes *least*.


# %%
class UpsideDown:
    """The target with its logits negated."""

    def __init__(self, model: GPT) -> None:
        self.config, self.trunk = model.config, model.trunk
        self.new_cache = model.new_cache
        self.head = lambda hidden: -model.head(hidden)


untrained = GPT(small.config).double().initialize(torch.Generator().manual_seed(1))
drafts = {
    "the shipped draft": speculate(small, gamma, greedy),
    "the same at temperature 5": speculate(small, gamma, Sampling(5.0)),
    "random weights": speculate(untrained, gamma, greedy),
    "an adversary": speculate(UpsideDown(target), gamma, greedy),
    "the target itself": speculate(target, gamma, greedy),
}
for name, generation in drafts.items():
    assert generation.tokens == alone.tokens
    print(f"{name:<27} {generation.target_forwards:>3} passes, the same text")

# %% [markdown]
# A bad draft costs time and nothing else. In the worst case every round commits the one
# token that the target adds, as if nothing had been drafted. The perfect draft needs
# the fewest passes and is still no good: it costs as much as the target.
#
# ## Two numbers that are often confused
#
# Drafts behind a refusal were never looked at. Whether to count them decides which
# number one gets, and the two are not comparable. The one of those looked at is called
# the acceptance rate, *alpha*.

# %%
fates = [drafted.fate for round in fast.rounds for drafted in round.drafted]
unread = fates.count("unread")
print(f"{fast.drafted} drafted: {fast.accepted} accepted, ", end="")
print(f"{fates.count('refused')} refused, {unread} unread; {fast.emitted} written")
print(f"accepted / drafted:              {fast.accepted / fast.drafted:.2f}")
print(f"accepted / looked at (alpha):    {fast.acceptance_rate:.2f}")
print(f"tokens per pass of the target:   {fast.tokens_per_target_forward:.2f}")
assert fast.acceptance_rate == fast.accepted / (fast.drafted - unread)

# %% [markdown]
# ## Questions
#
# 1. Four tokens are drafted and the second is refused. How many tokens does the round
#    commit, and what happens to the third and fourth?
# 2. Why does `verify` return five rows for four drafts, and when is the fifth used?
# 3. The budget leaves room for one more token. How many should be drafted?
#
# <details><summary>Answers</summary>
#
# 1. Two: the first draft and the target's own choice in place of the second. The others
#    were guesses about a text that does not exist; they are dropped unread.
# 2. Row $i$ is what follows the first $i$ drafts, $i = 0 \ldots 4$. The last is used
#    when all four are kept: it gives the bonus.
# 3. None. A round always adds one token of the target's, so drafting would be for
#    nothing.
#
# </details>
#
# **Exercises** (the README says how to start): 5 (the draft loop), 6 (verification), 9
# (rollback), 10 (one round), 11 (the loop with EOS, the token that ends a text, and
# budget).

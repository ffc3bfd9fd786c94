# %% [markdown]
# # 3. Draft, verify, roll back
#
# At the end of this notebook you will be able to explain
#
# - the whole algorithm, which fits on one screen,
# - the four parts of a round, with what goes in and what comes out of each,
# - why the greedy text is the target's own, token for token, however bad the draft is,
# - what a good draft buys: fewer passes of the target.
#
# Read beside it: `draft.py`, `verify.py`, `rejection.py`, `rollback.py` and
# `speculative.py` in `minispec/core/`.

# %%
import sys

import minispec
import torch

if (folder := f"{minispec.__path__[0]}/../notebooks") not in sys.path:
    sys.path.append(folder)  # to run in any working directory

from figures import COLOURS, axes, slots, titles
from minispec import (
    GPT,
    Generation,
    ModelDrafter,
    Request,
    Sampling,
    Seeded,
    generate,
    generate_alone,
    reject,
)
from minispec.core.rejection import acceptance_ratios
from minispec.core.rollback import rollback
from minispec.core.sampling import logits_to_probs
from minispec.core.verify import verify
from minispec.show.terminal import quoted
from workbench import DRAFT, TARGET, TOKENIZER, decode, encode, in_type, words

# %% [markdown]
# ## The whole algorithm
#
# Here is speculative decoding on one screen, caches included: Algorithm 1 of Leviathan,
# Kalman and Matias (2023), in a loop. $n$ tokens are in the text; gamma is how many to
# draft in a round, K how many are drafted (near the end of the text fewer); V is the
# size of the vocabulary.


# %%
def speculative_decoding(target, draft, prompt, n_tokens, gamma, sampling, chance):
    """Prompt and `n_tokens` more, as the target would write them, but in few passes."""

    def next_rows(model, cache, text, last):  # -> [last, V], distributions
        logits = model(text[None, cache.length :], cache, last=last)[0]
        return logits_to_probs(logits, sampling, text)

    text, end = prompt, len(prompt) + n_tokens
    target_cache, draft_cache = target.new_cache(), draft.new_cache()
    while (n := len(text)) < end:
        # 1. Draft: K tokens, one cheap pass for each.
        K, d = min(gamma, end - n - 1), []
        for _ in range(K):
            d += next_rows(draft, draft_cache, text, last=1)
            text = torch.cat([text, torch.tensor([chance.sample(d[-1])])])
        # 2. Verify: what the target says after the text and each draft, in one pass.
        t = next_rows(target, target_cache, text, last=K + 1)
        # 3. Reject: accept each draft with probability min(1, target / draft).
        for i in range(K):
            x = text[n + i]
            if not chance.accept(float(t[i][x] / d[i][x])):
                wanted = (t[i] - d[i]).clamp(min=0)
                n_accepted, row = i, wanted / wanted.sum()
                break
        else:  # every draft was accepted
            n_accepted, row = K, t[K]
        new = torch.tensor([chance.sample(row)])
        text = torch.cat([text[: n + n_accepted], new])
        # 4. Roll back: both caches forget the drafts that were rejected.
        for cache in (target_cache, draft_cache):
            cache.length = min(cache.length, len(text) - 1)
    return text


# %% [markdown]
# The package does the same, split into parts that can be read, tested and replaced one
# by one. With the same seed it makes the same decisions, so it must write the same
# text, sampled or greedy:

# %%
target, small = in_type(TARGET, torch.float64), in_type(DRAFT, torch.float64)
prompt, gamma, N_TOKENS = encode("ARIEL:\nFull fathom five"), 4, 60
greedy = Sampling(temperature=0)

for sampling in (Sampling(), greedy):
    one_screen = speculative_decoding(
        target, small, prompt, N_TOKENS, gamma, sampling, Seeded(1)
    )
    drafter = ModelDrafter(small, sampling)
    request = Request(prompt, N_TOKENS, sampling, gamma)
    in_parts = generate(target, drafter, request, Seeded(1))
    assert one_screen.tolist() == [*prompt.tolist(), *in_parts.tokens]
    print(f"temperature {sampling.temperature:g}: the same {N_TOKENS} tokens")

# %% [markdown]
# (All of this notebook is computed in float64, where two ways of computing the same
# logits don't part; notebook 7 is about why they can in float32.)
#
# The rule of part 3 is the subject of notebook 4. Here it gets its simplest case,
# *greedy* decoding. Before the softmax, logits are divided by a *temperature*; the
# lower it is, the more probability goes to the most likely token. At temperature 0
# every model simply takes that token, and chance plays no part.
#
# ## One round in slow motion
#
# Both caches start as earlier rounds would have left them: with all of the text but its
# last token.

# %%
prefix, chance = prompt, Seeded(0)
n = len(prefix)
target_cache, drafter = target.new_cache(64), ModelDrafter(small, greedy)
drafter.begin(target_cache)  # a new text: the draft gets a cache of its own
draft_cache = drafter.cache
target(prefix[None, :-1], target_cache)
small(prefix[None, :-1], draft_cache)
print(n, "tokens:", words(prefix))

# %% [markdown]
# **1. Draft.** The small model continues the text by four tokens, one cheap pass each.
# A proposal is the tokens *and* the distributions they were drawn from; at temperature
# 0 each distribution has all its mass on one token.

# %%
proposal = drafter.propose(prefix, gamma, chance)
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
# **3. Reject.** Accept drafts as long as the target would have chosen the same; at the
# first that it would not, take the target's choice instead. That is what the general
# rule comes to here, since every ratio target / draft is 0 or 1. If all drafts are
# accepted, the target's last row gives one token more.

# %%
ratios = acceptance_ratios(proposal.tokens, proposal.draft_probs, target_probs)
verdict = reject(proposal.tokens, proposal.draft_probs, target_probs, chance)
print("ratios:", ratios.tolist())
print("accepted:", verdict.n_accepted, " then:", words([verdict.next_token]))

# %% [markdown]
# Ratios after the first 0 do not count: a draft after a rejection was a guess about a
# text that has not come about.
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
    """The slots of a cache that ever held `written` rows, `length` now."""
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
# **Figure 3.1.** Both caches in this round. Blue-grey: rows of the text before it.
# Hatched: rows of its drafts; those still hatched after rollback now belong to the
# text. Pale text: stale rows of rejected tokens. White: free slots. The draft never fed
# itself its own last proposal (it drew it and stopped), so it had run ahead by one row
# less than the target. After rollback both hold all of the new text but its last token.
#
# ## The loop
#
# A decode is rounds until the text ends: `generate`. Beside it the target alone.
#
# **Predict, then run:** how many passes of the target will 60 tokens take?

# %%
request = Request(prompt, N_TOKENS, greedy, gamma)
alone = generate_alone(target, request, Seeded(0))
fast = generate(target, ModelDrafter(small, greedy), request, Seeded(0))
assert fast.tokens == alone.tokens
print(decode([*prompt.tolist(), *fast.tokens]))
print()
print(f"{alone.target_forwards} passes of the target alone")
print(f"{fast.target_forwards} passes with a draft, and the same {N_TOKENS} tokens")
print("drafted in each round:", [len(one.tokens) for one in fast.rounds])

# %% [markdown]
# (Greedy texts of so small a model like to go in circles. Near the end of the *budget*
# of 60 tokens a round drafts no more than can still be used.)
#
# The first 14 rounds: which drafts were accepted, and the token that came after them.
# It is a *bonus* where all drafts were accepted; otherwise it replaces the first that
# was rejected and is called *resampled*, since at temperatures above 0 it is drawn.

# %%
for number, one in enumerate(fast.rounds[:14], start=1):
    accepted = words(one.committed[: one.n_accepted]) or "(nothing)"
    last = f"{one.extra}: {words(one.committed[-1:])}" if one.extra else "(end)"
    print(f"{number:>3}  {accepted:<40} {last}")


# %%
def staircase(generation: Generation) -> list[int]:
    """Tokens written after 0, 1, 2, ... passes of the target."""
    heights = [0]
    for one in generation.rounds:
        heights.append(heights[-1] + len(one.committed))
    return heights


def speculate(model: GPT, gamma: int = 4, sampling: Sampling = greedy) -> Generation:
    """The target's greedy text, drafted by `model`."""
    request = Request(prompt, N_TOKENS, greedy, gamma)
    return generate(target, ModelDrafter(model, sampling), request, Seeded(0))


[ax] = axes(width=5.5, height=3)
for gamma_shown, dash, colour in zip((8, 4, 1), ("-", "--", "-."), COLOURS):
    heights = staircase(speculate(small, gamma_shown))
    ax.step(range(len(heights)), heights, dash, color=colour, where="post",
            label=f"gamma {gamma_shown}")
ax.plot([0, N_TOKENS], [0, N_TOKENS], ":", color="0.5", label="target alone")
ax.legend()
titles(ax, "passes of the target", "tokens written")

# %% [markdown]
# **Figure 3.2.** The same 60 tokens, by passes of the target, for three draft lengths.
# Each step is a round; its height is what the round committed, at least 1 and at most
# gamma + 1. Steep stretches are easy text. (Passes are not yet time: drafting costs
# something too, and notebook 5 counts it.)
#
# ## Half-truth: "the small model changes the output"
#
# It cannot. Every token that is committed is one the target chose, given exactly the
# text before it. To see it, let worse and worse drafts try: one that samples at
# temperature 5, one with random weights that never learned anything, and an adversary
# that always proposes what the target likes *least*.
#
# **Predict, then run:** how many passes does the adversary need, and how many the
# target as its own draft?


# %%
class UpsideDown:
    """The target with its logits negated."""

    config, new_cache = target.config, target.new_cache

    def __call__(self, *args, **options):
        return -target(*args, **options)


untrained = GPT(small.config).double().initialize(torch.Generator().manual_seed(1))
drafts = {
    "the shipped draft": speculate(small),
    "the same at temperature 5": speculate(small, sampling=Sampling(5.0)),
    "random weights": speculate(untrained),
    "an adversary": speculate(UpsideDown()),
    "the target itself": speculate(target),
}
for name, generation in drafts.items():
    assert generation.tokens == alone.tokens
    print(f"{name:<27} {generation.target_forwards:>3} passes, the same text")

# %% [markdown]
# A bad draft costs time and nothing else. In the worst case every round commits the one
# token that the target adds, as if nothing had been drafted. The perfect draft needs
# the fewest passes and is still useless: it costs as much as the target.
#
# ## Two rates that are often confused
#
# The target never looked at the drafts after a rejection. Whether they count decides
# which rate one gets.
#
# - **accepted / drafted** is what serving engines report: vLLM as *draft acceptance
#   rate*, llama.cpp's server as *accepted / generated* (it calls drafted tokens
#   generated).
# - **accepted / judged** counts only the drafts that were looked at. It estimates
#   *alpha*, the chance that one draft is accepted, and that is what the formulas of
#   notebook 5 want. `minispec` means this one wherever it says acceptance rate.
#
# The first is never the higher, and it falls when gamma grows, although each single
# draft is about as good as before.

# %%
print("                        gamma 2  gamma 4  gamma 8")
by_gamma = [speculate(small, gamma) for gamma in (2, 4, 8)]
for name, values in {
    "drafted": [one.drafted for one in by_gamma],
    "judged": [one.judged for one in by_gamma],
    "accepted": [one.accepted for one in by_gamma],
    "accepted / drafted": [one.accepted / one.drafted for one in by_gamma],
    "accepted / judged": [one.acceptance_rate for one in by_gamma],
    "tokens per target pass": [one.tokens_per_target_forward for one in by_gamma],
}.items():
    shown = (f"{value:>9.2f}" if value % 1 else f"{value:>9.0f}" for value in values)
    print(f"{name:<22}{''.join(shown)}")

# %% [markdown]
# ## Questions
#
# 1. Four tokens are drafted and the second is rejected. How many tokens does the round
#    commit, and what happens to the third and fourth?
# 2. Why does `verify` return five rows for four drafts, and when is the fifth used?
# 3. The budget leaves room for one more token. How many should be drafted?
# 4. In one round four tokens are drafted and the third is rejected. What does this
#    round add to each of the two rates, above and below the line?
#
# <details><summary>Answers</summary>
#
# 1. Two: the first draft and the target's own choice in place of the second. The others
#    were guesses about a text that does not exist; they are dropped without a look.
# 2. Row $i$ is what follows the first $i$ drafts, $i = 0 \ldots 4$. The last is used
#    when all four are accepted: it gives the bonus.
# 3. None. A round always adds one token of the target's, so drafting would be for
#    nothing.
# 4. Two accepted in both; 4 drafted, but only 3 judged.
#
# </details>
#
# **Exercises** (`python scripts/exercises.py next` shows them; in a notebook `from
# workbench import check`, `check(5)` grades): 5 (the draft loop), 6 (verification).

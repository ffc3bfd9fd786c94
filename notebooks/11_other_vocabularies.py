# %% [markdown]
# # 11. Other vocabularies and text-only drafts
#
# A draft need not be a model, and a draft model need not speak the target's tokens. At
# the end of this notebook you will be able to explain
#
# - the difference between copying what came last and what came most often,
# - on which texts a copy beats a draft model, and where counting beats looking back,
# - the two ways to draft in another vocabulary, and why one must divide and the other
#   must look at the border between tokens,
# - what a draft of bytes costs in acceptance, and where that cost comes from.
#
# Read beside it: `minispec/drafters/suffix.py`, `minispec/drafters/vocabularies.py`.
# Notebooks 4, 6 and 8 come before this one.

# %%
import sys

import minispec
import torch

if (folder := f"{minispec.__path__[0]}/../notebooks") not in sys.path:
    sys.path.append(folder)  # to run in any working directory

from figures import COLOURS, axes, bars, slots, titles, tree
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
)
from minispec.core.analysis import round_speedup
from minispec.drafters.suffix import (
    SuffixDrafter,
    SuffixIndex,
    SuffixReader,
    SuffixTrees,
)
from minispec.drafters.vocabularies import (
    IntersectionDrafter,
    StringMatchDrafter,
    continuation,
    drafter_for,
    shared_tokens,
)
from minispec.exactness import enumerate_outputs, largest_difference
from minispec.exactness.one_round import distribution_of_one_round
from minispec.files.pair import SHIPPED, load_packed
from workbench import (
    DRAFT,
    TARGET,
    TOKENIZER,
    encode,
    in_type,
    milliseconds,
    passages,
    words,
)

greedy, warm = Sampling(temperature=0), Sampling()
V = TOKENIZER.vocab_size

# %% [markdown]
# ## The last time, or most of the time
#
# Prompt lookup (notebook 6) copies what followed *the last time*. Suffix decoding
# (Oliaro et al. 2024) counts, and takes what followed *most often*. With words in place
# of tokens:

# %%
SAID = (
    "the king of France sleeps . the king of France wakes . "
    "the king of Spain sleeps . the king of"
)
known = sorted(set(SAID.split()))
as_words = torch.tensor([known.index(word) for word in SAID.split()])
last = NgramDrafter(len(known)).propose(as_words, 1, Seeded(0)).tokens
suffix = SuffixDrafter(len(known))
suffix.begin(TARGET.new_cache())  # a new text
most = suffix.propose(as_words, 1, Seeded(0)).tokens
print(SAID, "...")
print("prompt lookup:  ", known[last[0]])
print("suffix decoding:", known[most[0]])

# %% [markdown]
# The index behind it is a trie, a tree whose branches are sequences of words. A node
# knows how often its sequence occurred, and what followed. The end of the text stands
# at several nodes at once, one for each of its suffixes that occurred before. These are
# its *contexts*:

# %%
reader = SuffixReader(longest=16, history=None)
reader.read(as_words)
contexts = {context.length: context for context in reader.contexts()}
for context in contexts.values():
    seen = " ".join(SAID.split()[-context.length :])
    following = {
        known[token]: n for token, n, _ in context.said.all_after(context.at)
    }
    print(f"{seen:<14} {context.times} times, this one too; followed by {following}")

[ax] = axes(width=6.5, height=2.2)
counted, three = {}, contexts[3]
for token, n, then in three.said.all_after(three.at):
    for after, n_after, _ in three.said.all_after(then):
        path = ("the king of", f"{known[token]} {n}x", f"{known[after]} {n_after}x")
        counted[path] = f"{n / three.times * n_after / n:.2f}"
tree(ax, counted)

# %% [markdown]
# **Figure 11.1.** A part of the index: what followed *the king of*, and the estimated
# probability of each path. The estimate is the product of the shares on the way. (The
# end of the text, whose next word is open, counts as one of the four occurrences.)
# Prompt lookup sees only the newest branch, *Spain*. Suffix decoding weighs all three.
#
# The estimates also decide *how far* to draft: no token whose estimate is below 0.1,
# and at most four for each token that matched. Both drafters run no model, so they cost
# next to nothing (notebook 9 has measured it). Both propose one-hot rows: the tokens
# were chosen, not drawn.
#
# ## Where copies win
#
# Take four texts: speeches, a song with a refrain, a roll call, and a scene that is
# written again with some words changed. The beginning of each is the prompt.

# %%
SONG = [
    """BALTHASAR:
Sigh no more, ladies, sigh no more,
Men were deceivers ever,
One foot in sea and one on shore,
To one thing constant never:
Then sigh not so, but let them go,
And be you blithe and bonny,
Converting all your sounds of woe
Into Hey nonny, nonny.

""",
    """Sing no more ditties, sing no moe,
Of dumps so dull and heavy;
The fraud of men was ever so,
Since summer first was leafy:
Then sigh not so, but let them go,
And be you blithe and bonny,
Converting all your sounds of woe
Into Hey nonny, nonny.
""",
]
CALL = "".join(
    f"KING:\nWhat says the {rank} of {name}?\n\n"
    f"{name.upper()}:\nMy lord, the {rank} of {name} says no more.\n\n"
    for rank, name in [
        ("Duke", "Norfolk"), ("Duke", "Suffolk"), ("Earl", "Surrey"),
        ("Duke", "Exeter"), ("Earl", "Warwick"), ("Duke", "York"),
    ]
)
SCENE = """FIRST LORD:
The king is come to Dover with his men,
And bids us meet him there before the night.
My lord, the wind is high, the way is long,
And I am weary of this idle war.

SECOND LORD:
Then rest you here, and I will go alone,
And tell the king that you are sick, my lord.

"""
EDITED = SCENE
for word, other in [("Dover", "London"), ("weary", "tired"), ("sick", "old")]:
    EDITED = EDITED.replace(word, other)
SPEECH = "\n\n".join(passages()[:6])
TEXTS = {  # name -> prompt, and what is written after it
    "speech": (SPEECH[:120], SPEECH[120:]),
    "refrain": tuple(SONG),
    "roll call": (CALL[:190], CALL[190:]),
    "scene, edited": (SCENE, EDITED),
}

# %% [markdown]
# Suppose that the target writes just the rest of each. How many passes does it take? A
# draft is then accepted if it is what comes next, so no target has to run. For
# comparison, suffix decoding also drafts trees: all that followed, the likeliest first
# (notebook 8 has trees). So `accepted_of` follows what came down a chain or a tree:


# %%
def accepted_of(guess, came):
    """How many drafts of a chain, or of a tree's best path, are what came."""
    node, n = -1, 0
    parents = getattr(guess, "parents", range(-1, len(guess.tokens) - 1))
    children = list(zip(parents, guess.tokens.tolist()))
    while n < len(came) and (node, int(came[n])) in children:
        node, n = children.index((node, int(came[n]))), n + 1
    return n


def written(drafter, prompt, text, gamma=8):
    """How a target that writes `text` drafts: tokens per pass, accepted, drafted."""
    ids, n = torch.cat([encode(prompt), encode(text)]), len(encode(prompt))
    drafter.begin(TARGET.new_cache())
    propose = getattr(drafter, "propose_tree", None) or drafter.propose
    passes = drafted = accepted = 0
    while n < len(ids):
        guess = propose(ids[:n], gamma, Seeded(0))
        n_accepted = accepted_of(guess, ids[n:])
        passes, drafted = passes + 1, drafted + len(guess.tokens)
        accepted, n = accepted + n_accepted, n + n_accepted + 1
        drafter.rollback(n - 1)
    return len(encode(text)) / passes, accepted, drafted


# %% [markdown]
# Each drafter may draft up to eight tokens a round, as a chain or as the nodes of a
# tree.
#
# **Predict, then run:** on which texts does copying beat the draft model, which was
# trained on Shakespeare?

# %%
KINDS = {
    "draft model": lambda: ModelDrafter(DRAFT, greedy),
    "prompt lookup": lambda: NgramDrafter(V),
    "suffix decoding": lambda: SuffixDrafter(V),
    "suffix trees": lambda: SuffixTrees(V, n_nodes=8),
}
print(f"{'':<15}{'':<17}{'tokens per pass':>16}{'accepted / drafted':>22}")
per_pass, shares = {kind: [] for kind in KINDS}, {kind: [] for kind in KINDS}
for name, (prompt, text) in TEXTS.items():
    for kind, make in KINDS.items():
        tokens, accepted, drafted = written(make(), prompt, text)
        per_pass[kind].append(tokens)
        shares[kind].append(accepted / max(1, drafted))
        share = f"{accepted:>5} / {drafted:<5}= {shares[kind][-1]:.2f}"
        print(f"{name:<15}{kind:<17}{tokens:>16.2f}{share:>22}")

panels = axes(2, width=9.5, height=3)
for ax, heights, what in zip(
    panels, (per_pass, shares), ("tokens per pass, gamma 8", "accepted / drafted")
):
    bars(ax, [name.replace(", ", ",\n") for name in TEXTS], heights)
    titles(ax, "", what)
panels[1].get_legend().remove()

# %% [markdown]
# **Figure 11.2.** A target that writes exactly these texts, greedily. Left: tokens per
# pass. Right: the share of drafts that came true. A draft model knows the language, and
# a copy knows the text. Where a text repeats itself, the copy wins at a fraction of the
# cost; in fresh speeches it finds next to nothing. (This draft model is small. A larger
# one also learns to repeat.)
#
# Where does counting win over looking back? Hardly in tokens per pass, but clearly on
# the right: suffix decoding drafts less where it is unsure, so fewer rows of each pass
# are wasted. Where a further row costs (notebook 5), that is what counts. And a
# counting drafter knows *several* continuations with their shares, so it can draft a
# tree.
#
# ## What was said in other texts
#
# This is where suffix decoding wins most. Take the same scene, but the first version is
# not in the prompt: it was written an hour ago, in another request. Prompt lookup has
# nothing to copy from. A suffix drafter may have a `history`, an index of earlier
# texts:

# %%
earlier = SuffixIndex()
for text in (SCENE, *SONG, CALL):
    earlier.add(encode(text).tolist())
begin, rest = EDITED[:30], EDITED[30:]
for name, drafter in {
    "draft model": ModelDrafter(DRAFT, greedy),
    "prompt lookup": NgramDrafter(V),
    "suffix decoding": SuffixDrafter(V),
    "suffix decoding, with history": SuffixDrafter(V, earlier),
}.items():
    print(f"{name:<30}{written(drafter, begin, rest)[0]:.2f} tokens per pass")

# %% [markdown]
# That is what suffix decoding was made for: agents that run the same steps again and
# again, and users who ask for one more change. (Whose texts may go into a history is a
# question of its own: the speed of an answer tells a user what was said before.)
#
# ## With the shipped target
#
# The shipped target is too small to quote well. With half of such a text in the prompt
# it goes on in its own way. Tokens per pass at temperature 0 and 1:

# %%
chains = list(KINDS)[:3]
print(f"{'':<31}" + "".join(f"{kind:>17}" for kind in chains))
for sampling in (greedy, warm):
    for name in ("refrain", "scene, edited"):
        prompt, text = (encode(part) for part in TEXTS[name])
        prompt = torch.cat([prompt, text[: len(text) // 2]])
        request = Request(prompt, 64, sampling, gamma=8)
        shown = ""
        for drafter in (
            ModelDrafter(DRAFT, sampling), NgramDrafter(V), SuffixDrafter(V)
        ):
            texts = [generate(TARGET, drafter, request, Seeded(s)) for s in range(2)]
            done = Generation(tuple(one for text in texts for one in text.rounds))
            shown += f"{done.tokens_per_target_forward:>17.2f}"
        print(f"temperature {sampling.temperature:<4g}{name:<15}{shown}")

# %% [markdown]
# At temperature 0 the copies live off its loops (notebook 6). At temperature 1 a copy
# is accepted with the target's own probability of one token, which is small in most
# places. So measure with your own target, on your own texts, before you believe either
# table.
#
# ## Another vocabulary
#
# The best draft model at hand may come from another family, with another tokenizer. The
# folder `draft-bytes` holds one that speaks bytes: 256 bytes and the end of a text,
# where the target has a vocabulary of 1,024. The same text in both:

# %%
BYTES, OWN = load_packed(SHIPPED / "draft-bytes")
text = "Sigh no more, ladies"
slots(
    {
        "target": [(words([token])[1:-1], "held") for token in encode(text)],
        "draft": [(chr(token), "drafted") for token in OWN.encode(text)],
    },
    width=8.5, below="token number",
)
n_bytes, n_tokens = (len(one.encode(SPEECH)) for one in (OWN, TOKENIZER))
print(f"the speech: {n_tokens} tokens of the target, {n_bytes} bytes")
print(f"one token of the target is {n_bytes / n_tokens:.1f} steps of this draft")

# %% [markdown]
# **Figure 11.3.** One text in two vocabularies. Plain: the target's tokens. Hatched:
# those of the draft, which needs more of them.
#
# There are two ways to bridge that. `drafter_for` chooses by how much of the target's
# vocabulary is shared:

# %%
for model, own in ((DRAFT, TOKENIZER), (BYTES, OWN)):
    chosen, why = drafter_for(model, own, TOKENIZER)
    print(f"{type(chosen).__name__:<19} {why}")

# %% [markdown]
# ## Intersection: say only what both have, and divide
#
# The first way, which the paper calls TLI ("token-level intersection"): the draft
# draws only from tokens that both vocabularies have. Its row $q'$ is then its own
# probabilities $q$ of these tokens, *divided by their sum*:
#
# $$q'(x) = \frac{q(x)}{\sum_{y \text{ shared}} q(y)} \quad (x \text{ shared}), \qquad
# \text{else } 0.$$
#
# In the next cell the target gives A, B, C, D the probabilities 0.4, 0.3, 0.2, 0.1. The
# draft gives 0.5 to A, 0.25 to B, and a quarter to words that the target does not have.
#
# **Predict, then run:** someone draws from the divided row, and declares the one before
# the division. Which tokens come out too often?

# %%
wanted = torch.tensor([[0.4, 0.3, 0.2, 0.1]] * 2, dtype=torch.float64)
shared = torch.tensor([[0.5, 0.25, 0.0, 0.0]], dtype=torch.float64)


def first_token(declared):
    """The distribution of a round's first token; drawn from what was divided."""
    drawn = shared / shared.sum()
    found = distribution_of_one_round(reject, wanted, declared, drawn_from=drawn)
    return [sum(p for t, p in found.items() if t[0] == x) for x in range(4)]


rows = {
    "target": wanted[0].tolist(),
    "divided": first_token(shared / shared.sum()),
    "not divided": first_token(shared),
}
for name, row in rows.items():
    print(f"{name:<12}" + "".join(f"{p:>8.3f}" for p in row))
[ax] = axes(width=6)
bars(ax, list("ABCD"), rows)
titles(ax, "first token", "probability")

# %% [markdown]
# **Figure 11.4.** Without the division A and B come out too often. They were drawn with
# probabilities 2/3 and 1/3 and declared as 1/2 and 1/4. So each ratio is a third too
# large, and too much is accepted: A comes out with $2/3 \cdot \min(1, 0.4/0.5) =
# 0.533$.
#
# This is the rule of notebook 4 once more: the declared row has to be the one that the
# token was *drawn from*.
#
# ## String match: write, and encode anew
#
# The second way needs no shared tokens; the paper calls it SLEM ("string-level exact
# match"). The draft writes some text in its own tokens. The target's tokenizer encodes
# that text, and the ids are proposed as chosen, with one-hot rows.
#
# The prefix is fixed *as ids*. A tokenizer that sees prefix and draft together may cut
# them in another place, and then its ids do not continue the ids that are there.
# `continuation` looks at the border:

# %%
for before, said in [
    ("Sigh no more, lad", "ies, sigh no more"),
    ("My lord,", " the king is come"),
    ("What sa", "ys the king"),
]:
    prefix = encode(before)
    ids = continuation(TOKENIZER, prefix, said.encode())
    print(f"prefix   {words(prefix)}\ndraft    {words(ids)}")
    print(f"at once  {words(encode(before + said))}\n")

# %% [markdown]
# Where one token would span the border (in the third example), the draft's part is
# encoded alone, and the prefix stays as it is. The last token is left out, since what
# the draft would have written next might have become a part of it.
#
# Is that exact? The text was drawn, but *given* the text the proposal is certain. So a
# one-hot row is the right one to declare, and a token is accepted with the target's
# probability. The enumeration runs the real code: bytes, each drawn from the draft's
# two most probable (float64; two tokens of the target, each from its two most
# probable).

# %%
target, of_bytes = in_type(TARGET, torch.float64), in_type(BYTES, torch.float64)
two = Sampling(top_k=2)
request = Request(encode("My lord, the"), 2, two, gamma=1)


def with_bytes(chance):
    drafter = StringMatchDrafter(of_bytes, OWN, TOKENIZER, two)
    return generate(target, drafter, request, chance).tokens


def alone(chance):
    return generate_alone(target, request, chance).tokens


expected = enumerate_outputs(alone)
found = enumerate_outputs(with_bytes)
difference = largest_difference(found.distribution, expected.distribution)
print(f"{len(expected.distribution)} texts, {found.n_branches} branches")
print(f"largest difference: {difference:.0e}")
assert difference < 1e-12

# %% [markdown]
# ## What it costs
#
# Now decode. Six ways show step by step where the cost comes from: the shipped draft,
# which shares the vocabulary; the same draft by string match, which hides its
# probabilities; this one greedy; the draft of bytes by string match, sampled and
# greedy; and the bytes by intersection.
#
# **Predict, then run:** at temperature 1, should a draft that hides its probabilities
# sample, as the target does, or be greedy?

# %%
GAMMA = 4
WAYS = {
    "own tokens": lambda s: ModelDrafter(DRAFT, s),
    "own tokens,\nstring match": lambda s: StringMatchDrafter(
        DRAFT, TOKENIZER, TOKENIZER, s
    ),
    "own tokens,\ngreedy,\nstring match": lambda s: StringMatchDrafter(
        DRAFT, TOKENIZER, TOKENIZER, greedy
    ),
    "bytes,\nstring match": lambda s: StringMatchDrafter(BYTES, OWN, TOKENIZER, s),
    "bytes,\ngreedy,\nstring match": lambda s: StringMatchDrafter(
        BYTES, OWN, TOKENIZER, greedy
    ),
    "bytes,\nintersection": lambda s: IntersectionDrafter(BYTES, OWN, TOKENIZER, s),
}
done = {}
for name, sampling in {"temperature 0": greedy, "temperature 1": warm}.items():
    for way, make in WAYS.items():
        rounds = []
        for seed, text in enumerate(passages()[:6]):
            request = Request(encode(text), 40, sampling, GAMMA)
            rounds += generate(TARGET, make(sampling), request, Seeded(seed)).rounds
        done[name, way] = Generation(tuple(rounds))
        first = done[name, way].acceptance_by_position[0]
        per = done[name, way].tokens_per_target_forward
        flat = way.replace("\n", " ")
        print(f"{name}  {flat:<33}first draft {first:.2f}, tokens per pass {per:.2f}")

[ax] = axes(width=8.5, height=3)
bars(
    ax, list(WAYS), {
        name: [done[name, way].acceptance_by_position[0] for way in WAYS]
        for name in ("temperature 0", "temperature 1")
    },
)
ax.set_ylim(0, 1.1)
titles(ax, "", "first draft accepted")

# %% [markdown]
# **Figure 11.5.** How often the first draft of a round is accepted. At temperature 0
# string match costs the draft with the target's own tokens nothing. At temperature 1,
# hiding the probabilities costs it most of its acceptance, and the bytes have little
# left to lose. (At temperature 0 a draft has to be the target's own choice. Longer
# greedy texts run in loops and look better.)
#
# In formulas, for a target row $t$ and a draft row $d$: with its row, a draft is
# accepted with probability $\sum_x \min(t(x), d(x))$; drawn and declared as certain,
# with $\sum_x t(x) \, d(x)$; greedy, with $t(\text{argmax}\, d)$. Independent draws
# rarely agree. Where both models have the same favourite, the favourite is at least as
# good a guess as a draw.
#
# The bytes lose for two more reasons. To guess one of the target's tokens they must be
# right several times in a row. And a target that samples may cut a text in another way
# than its tokenizer would; string match never guesses that.
#
# Then there is the cost of a step. A draft of bytes needs several steps for each token:

# %%
some = encode(SPEECH)[:64] % 256  # ids that all three have


def step_of(model):
    """One step after 63 tokens, as a function to time."""
    cache = model.new_cache()
    model(some[None, :-1], cache)

    def step():
        model(some[None, -1:], cache)
        cache.truncate(63)

    return step


models = {"target": TARGET, "draft": DRAFT, "bytes": BYTES}
times = milliseconds({name: step_of(model) for name, model in models.items()})
ratio = n_bytes / n_tokens * (GAMMA + 1) / GAMMA  # it writes one token more
for name, way, steps in [
    ("draft", "own tokens", 1.0), ("bytes", "bytes,\nstring match", ratio)
]:
    c = steps * times[name] / times["target"]
    print(f"{way.splitlines()[0]:<12}a token costs {c:.2f} steps of the target")
    for temperature in ("temperature 0", "temperature 1"):
        tokens = done[temperature, way].tokens_per_target_forward
        gain = round_speedup(tokens, GAMMA, c)
        print(f"{'':<12}{temperature}: {gain:.2f} times as fast, if v = 1")

# %% [markdown]
# At these sizes a draft of bytes is a loss. It is here to show the price. Two large
# models of different families share most of their words, and a step of the draft is
# cheap beside one of the target. There intersection pays, since it keeps the
# probabilities (Timor et al. 2025).
#
# ## Half-truth: "a draft needs the target's tokenizer"
#
# It does not: both ways are exact. But what a draft hides or cannot say, it pays for in
# acceptance. How much of a text can the bytes and the target both say?

# %%
pairs = shared_tokens(OWN, TOKENIZER)
spoken = encode("\n\n".join(passages()))
of_those = sum(int(token) in pairs.values() for token in spoken) / len(spoken)
print(f"shared: {len(pairs)} of {V} tokens; of the tokens of real text: {of_those:.0%}")
[ax] = axes(width=6, height=2.4)
counts = torch.bincount(spoken, minlength=V).sort(descending=True)
inside = [int(i) in pairs.values() for i in counts.indices]
share = counts.values.cumsum(0) / len(spoken)
also = torch.tensor(inside).int() * counts.values
ax.plot(range(V), share, "-", color=COLOURS[1], label="all tokens")
ax.plot(
    range(V), also.cumsum(0) / len(spoken), "--", color=COLOURS[2],
    label="those that are a byte",
)
ax.legend()
titles(ax, "tokens of the target, the most frequent first", "share of text")

# %% [markdown]
# **Figure 11.6.** How much of real text the most frequent tokens of the target cover
# (solid), and how much of that are tokens which the draft of bytes has as well
# (dashed): punctuation, line ends, single letters. Only there can an intersection be
# right. At temperature 1 that is enough to beat string match in figure 11.5, and at
# temperature 0 it is not.
#
# ## Questions
#
# 1. A text repeats a line nine times with ending A, and then once with ending B. What
#    do prompt lookup and suffix decoding propose, and which of them is right if the
#    writer has just changed their mind?
# 2. Why may many requests share one history at the same time?
# 3. A draft gives 0.2 of its probability to tokens that the target lacks, and declares
#    its row without the division. By what factor are accepted tokens too frequent, at
#    most?
# 4. Why does string match leave out the last token of what was written?
#
# <details><summary>Answers</summary>
#
# 1. Prompt lookup proposes B and suffix decoding A. Here the newest ending is right.
#    Where endings come and go without a pattern, the most frequent one is right more
#    often.
# 2. It is only read. Each text has an index of its own, and rejected drafts enter
#    neither, so there is nothing to roll back.
# 3. By 1 / 0.8 = 1.25, where the ratio stays below 1.
# 4. The next letters might have become a part of it. "kin" might be the beginning of
#    "king": proposed as a token, it would be a guess that the draft never made.
#
# </details>
#
# **Exercises**: none that is graded. Try this: write a drafter that copies where suffix
# decoding is sure and asks the draft model elsewhere. Notebook 6 has the pattern.

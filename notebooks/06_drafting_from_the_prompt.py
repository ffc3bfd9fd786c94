# %% [markdown]
# # 6. Drafting from the prompt
#
# A draft need not come from a model. At the end of this notebook you will be able to
# explain
#
# - how to draft by copying what followed the last time,
# - on which texts that works and on which it does not,
# - why it is still exact, although nothing was drawn.
#
# Read beside it: `minispec/drafters/ngram.py`.

# %%
import sys
from statistics import median

import minispec
import torch

if (folder := f"{minispec.__path__[0]}/../notebooks") not in sys.path:
    sys.path.append(folder)  # to run in any working directory

from figures import axes, bars, titles
from minispec import (
    Generation,
    ModelDrafter,
    NgramDrafter,
    Proposal,
    Request,
    Sampling,
    Seeded,
    generate,
    generate_alone,
)
from minispec.core.draft import Drafter
from minispec.drafters.ngram import copy_continuation
from minispec.exactness import enumerate_outputs, largest_difference
from workbench import DRAFT, TARGET, TOKENIZER, by_turns, decode, encode, in_type, words

# %% [markdown]
# ## Look back, and copy
#
# Take the last few tokens, find where they occurred before, and propose what came next.
# The longest match wins, and of equals the most recent one.

# %%
line = "the king of France and the king of England and the king of"
known = sorted(set(line.split()))
as_words = torch.tensor([known.index(word) for word in line.split()])
copied = copy_continuation(as_words, gamma=4, longest=4, shortest=1)
print(line, "...")
print("guess:", " ".join(known[i] for i in copied.tolist()))
assert known[copied[0]] == "England"

nothing = copy_continuation(torch.tensor([5, 6, 7]), gamma=4, longest=4, shortest=1)
print("and where nothing occurred before:", nothing.tolist())

# %% [markdown]
# No model runs, so drafting costs next to nothing: the cost ratio c of notebook 5 is
# almost 0. In a text that never repeats nothing matches; then K, the number of drafts,
# is 0 and the round is a plain step of the target.
#
# ## Two kinds of text
#
# How often is the copy right? That needs no target at all: walk through a text and
# compare each guess with what really comes next. Four texts: the witches' song from
# *Macbeth*, which repeats itself; Portia's speech from *The Merchant of Venice*, which
# hardly does (neither play was used in training); a few lines of a program; and the
# beginning of the speech, quoted a second time.
#
# **Predict, then run:** in which of the four are most copies right, and in which
# fewest?

# %%
SONG = """ALL:
Double, double toil and trouble;
Fire burn, and cauldron bubble.

Second Witch:
Fillet of a fenny snake,
In the cauldron boil and bake;
Eye of newt and toe of frog,
Wool of bat and tongue of dog,
Adder's fork and blind-worm's sting,
Lizard's leg and owlet's wing,
For a charm of powerful trouble,
Like a hell-broth boil and bubble.

ALL:
Double, double toil and trouble;
Fire burn and cauldron bubble.
"""
SPEECH = """PORTIA:
The quality of mercy is not strain'd,
It droppeth as the gentle rain from heaven
Upon the place beneath: it is twice blest;
It blesseth him that gives and him that takes:
'Tis mightiest in the mightiest: it becomes
The throned monarch better than his crown;
His sceptre shows the force of temporal power,
The attribute to awe and majesty,
Wherein doth sit the dread and fear of kings;
But mercy is above this sceptred sway;
It is enthroned in the hearts of kings.
"""
CODE = """for i in range(3):
    for j in range(3):
        total[i] = total[i] + row[j]
for i in range(3):
    for j in range(4):
        total[j] = total[j] + row[i]
for i in range(4):
    print(total[i], row[i])
"""
AGAIN = "\nShe said it, and they asked her to say it again.\n\n"
QUOTED = SPEECH[:270] + AGAIN + SPEECH[:270]
TEXTS = {"speech": SPEECH, "song": SONG, "code": CODE, "quoted twice": QUOTED}


def right_copies(text: str, gamma: int = 4) -> tuple[float, float]:
    """Per position: how many tokens are copied, and how many of them come true."""
    ids = encode(text)
    drafter, made, true = NgramDrafter(TOKENIZER.vocab_size), 0, 0
    for n in range(1, len(ids)):
        guess = drafter.propose(ids[:n], gamma, Seeded(0)).tokens
        came = ids[n : n + len(guess)]
        right = (guess[: len(came)] == came).int().cumprod(0).sum()
        made, true = made + len(guess), true + int(right)
    return made / (len(ids) - 1), true / (len(ids) - 1)


copies = {name: right_copies(text) for name, text in TEXTS.items()}
[ax] = axes(width=6, height=2.6)
bars(
    ax, list(copies), {
        "copied": [made for made, _ in copies.values()],
        "right, up to the first error": [true for _, true in copies.values()],
    },
)
titles(ax, "text", "tokens per position (mean)")

# %% [markdown]
# **Figure 6.1.** Prompt lookup along four texts, gamma 4: how many tokens it proposes
# at a position, and how many of these the text confirms. It proposes something at many
# positions even of the speech, since a comma or the end of a line has occurred before;
# it is right where the text quotes itself.


# %%
def first_guesses(text: str, shortest: int) -> str:
    """How many next tokens are guessed, from matches of so many to 4 tokens."""
    ids, made, right = encode(text), 0, 0
    drafter = NgramDrafter(TOKENIZER.vocab_size, 4, shortest)
    for n in range(1, len(ids)):
        guess = drafter.propose(ids[:n], 1, Seeded(0)).tokens
        made, right = made + len(guess), right + int(ids[n] in guess)
    return f"{right:>9} of {made:>3} right"


print(f"{'shortest match':<15}" + "".join(f"{m:>22}" for m in ("1", "2", "3")))
for name, text in TEXTS.items():
    shown = "".join(f"{first_guesses(text, m):>22}" for m in (1, 2, 3))
    print(f"{name:<15}{shown}")

# %% [markdown]
# If longer matches are required, guesses get rarer, and better where the text does
# quote itself. Which is worth more depends on the cost of a wrong guess, that is on the
# cost of a wider pass: where passes are flat, a wrong guess costs nothing.
#
# ## Half-truth: "prompt lookup is for greedy decoding only"
#
# The guess was not drawn from anything; it is certain. Its distribution is therefore
# one-hot, the ratio is target / 1, and the token is accepted with just the probability
# that the target gives it. Enumerated on the shipped target (float64, three tokens,
# each from the two most likely), with a prompt whose continuation can be copied:

# %%
target = in_type(TARGET, torch.float64)
prompt = encode("the king of France and the king of")
two = Sampling(top_k=2)
request = Request(prompt, 3, two, gamma=2)


def with_copies(randomness):
    """Three tokens, drafted by prompt lookup."""
    drafter = NgramDrafter(TOKENIZER.vocab_size)
    return generate(target, drafter, request, randomness).tokens


def alone(randomness):
    """Three tokens by the target alone."""
    return generate_alone(target, request, randomness).tokens


expected, found = enumerate_outputs(alone), enumerate_outputs(with_copies)
difference = largest_difference(found.distribution, expected.distribution)
print(f"{len(expected.distribution)} texts, {found.n_branches} branches")
print(f"largest difference: {difference:.1e}")
assert difference < 1e-12
guess = NgramDrafter(TOKENIZER.vocab_size).propose(prompt, 2, Seeded(0)).tokens
accepted = sum(p for text, p in found.distribution.items() if text[0] == guess[0])
print(f"drafted: {words(guess)}; the first comes out with probability {accepted:.2f}")
assert 0 < accepted < 1

# %% [markdown]
# ## Drafters compared
#
# The same prompts, continued by the target alone, with the draft model, and with prompt
# lookup; greedily, and at temperature 1. Each prompt is one of the texts above with
# some of its end cut off.
#
# **Predict, then run:** which drafter loses more when the temperature rises from 0 to
# 1?

# %%
GAMMA, N_TOKENS, REPEATS = 4, 64, 3
prompts = {
    "speech": encode(SPEECH)[:120],
    "song": encode(SONG)[:-16],
    "quoted twice": encode(QUOTED)[:-60],
}
KINDS = ["target alone", "draft model", "prompt lookup"]


def work(kind: str, prompt: torch.Tensor, sampling: Sampling):
    """One continuation, for `by_turns`."""
    request = Request(prompt, N_TOKENS, sampling, GAMMA)

    def run(seed: int) -> Generation:
        if kind == "target alone":
            return generate_alone(TARGET, request, Seeded(seed))
        if kind == "draft model":
            return generate(
                TARGET, ModelDrafter(DRAFT, sampling), request, Seeded(seed)
            )
        lookup = NgramDrafter(TOKENIZER.vocab_size)
        return generate(TARGET, lookup, request, Seeded(seed))

    return run


per_pass, speedup = {}, {}
for temperature in (0.0, 1.0):
    for name, prompt in prompts.items():
        works = {kind: work(kind, prompt, Sampling(temperature)) for kind in KINDS}
        runs = by_turns(works, REPEATS)
        for kind, timed in runs.items():
            key = temperature, name, kind
            passes = sum(one.result.target_forwards for one in timed)
            per_pass[key] = REPEATS * N_TOKENS / passes
            both = zip(runs["target alone"], timed)
            speedup[key] = median(one.seconds / two.seconds for one, two in both)

print(f"{'':<30}{'tokens per pass':>20}{'speed-up':>12}")
for (temperature, name, kind), tokens in per_pass.items():
    if kind != "target alone":
        gain = speedup[temperature, name, kind]
        print(f"T {temperature:g}, {name:<13} {kind:<15}{tokens:>14.2f}{gain:>12.2f}")

# %%
panels = axes(2, width=8.5)
for ax, temperature in zip(panels, (0.0, 1.0)):
    bars(
        ax, list(prompts), {
            kind: [per_pass[temperature, name, kind] for name in prompts]
            for kind in KINDS
        },
    )
    ax.set_ylim(0, GAMMA + 1)
    ax.axhline(GAMMA + 1, color="0.5", linewidth=0.8)
    titles(ax, "prompt", "tokens per pass", f"temperature {temperature:g}")
panels[1].get_legend().remove()

# %% [markdown]
# **Figure 6.2.** Tokens per pass of the target, gamma 4 (at most 5). Prompt lookup
# depends on the temperature far more than the draft model does: at temperature 1 it
# brings little, and the copies are free but the wider passes are not. Which prompt it
# was matters less than figure 6.1 promises: this small target does not go on quoting,
# and a copy is right only where the target repeats what is there. Greedy texts of a
# small model, however, like to fall into loops, and a loop is the best thing to copy
# from. That is a weakness of the text and not a merit of the drafter, so look at what
# was written before you trust such a number:

# %%
greedy = work("prompt lookup", prompts["speech"], Sampling(0.0))(0)
print(decode(greedy.tokens))

# %% [markdown]
# ## A drafter of your own
#
# A class with a method `propose` is a drafter, and as long as the rows that it reports
# are those it drew from (notebook 4) it cannot make the text wrong. `begin` and
# `rollback` are for drafters that keep something: the base class does nothing there.
# Here is one in a few lines: the draft model where nothing long matches, otherwise a
# copy.


# %%
class CopyElseModel(Drafter):
    """Copies where at least three tokens match; otherwise asks the draft model."""

    def __init__(self, sampling: Sampling) -> None:
        self.model = ModelDrafter(DRAFT, sampling)

    def begin(self, cache):
        self.model.begin(cache)

    def propose(self, prefix, gamma, randomness):
        copied = copy_continuation(prefix, gamma, longest=6, shortest=3)
        if len(copied):
            return Proposal.certain(copied, TOKENIZER.vocab_size)
        return self.model.propose(prefix, gamma, randomness)

    def rollback(self, length):
        self.model.rollback(length)


for name, prompt in prompts.items():
    request = Request(prompt, N_TOKENS, Sampling(0.0), GAMMA)
    mixed = generate(TARGET, CopyElseModel(request.sampling), request, Seeded(0))
    print(
        f"{name:<13} {mixed.tokens_per_target_forward:.2f} tokens per pass "
        f"(model {per_pass[0.0, name, 'draft model']:.2f}, "
        f"lookup {per_pass[0.0, name, 'prompt lookup']:.2f})"
    )

# %% [markdown]
# ## Questions
#
# 1. For which uses would you try prompt lookup first: translating, editing a program,
#    answering questions about a document that is in the prompt, telling a story?
# 2. At temperature 1 the target gives the copied token probability 0.4. How often is it
#    accepted? How often would a draft *drawn* from the target's own row be accepted?
# 3. Why does `CopyElseModel` need no code for the rounds in which its model did not
#    run?
#
# <details><summary>Answers</summary>
#
# 1. Editing and answering from a document: the output repeats the prompt. Translating
#    and telling repeat little.
# 2. With probability 0.4. A draw from the target's own row would always be accepted: a
#    one-hot guess pays for being certain.
# 3. Each model is fed `prefix[cache.length:]`, however much that is. After some rounds
#    of copying it is simply more.
#
# </details>
#
# **Exercises** (`python scripts/exercises.py next` shows them; in a notebook `from
# workbench import check`, `check(13)` grades): 13 (prompt lookup).

# %% [markdown]
# # 8. Trees
#
# A chain of drafts has one guess for each position. A tree has several, and one pass of
# the target still judges them all. At the end of this notebook you will be able to
# explain
#
# - what a chain wastes, and how a second guess saves part of it,
# - how one pass can verify many continuations at once: the mask and the positions,
# - why the row of a second child must be normalised again,
# - how to compute the best shape, and when a chain is faster nevertheless.
#
# Read beside it: `minispec/trees/`, in the order tree, verify, rejection, speculative,
# choices, shape.

# %%
import sys

import minispec
import torch
import torch.nn.functional as F

if (folder := f"{minispec.__path__[0]}/../notebooks") not in sys.path:
    sys.path.append(folder)  # to run in any working directory

from figures import COLOURS, axes, bars, curves, slots, titles
from minispec import (
    Generation,
    ModelDrafter,
    Request,
    Sampling,
    Seeded,
    generate,
    generate_alone,
    speculative_rounds,
)
from minispec.core.analysis import round_speedup
from minispec.core.rollback import rollback
from minispec.exactness import output_distribution
from minispec.trees.choices import most_probable, with_replacement, without_replacement
from minispec.trees.drafters import BestTrees, FixedTrees
from minispec.trees.rejection import reject_tree
from minispec.trees.rounds import acceptance_by_rank
from minispec.trees.shape import (
    best_shape,
    best_shape_of,
    depth_of,
    expected_accepted,
    from_widths,
    n_nodes,
    widths_of,
)
from minispec.trees.speculative import generate_with_trees
from minispec.trees.tree import Tree, depths, path_tokens, tree_mask
from minispec.trees.verify import keep_path, verify_tree
from workbench import DRAFT, TARGET, by_turns, encode, milliseconds, passages, words

greedy, warm = Sampling(temperature=0), Sampling()
prompts = [encode(text) for text in passages()[:6]]

# %% [markdown]
# ## What a chain wastes
#
# A round drafts eight tokens in a row. The first rejection ends it: the drafts after it
# were drafted and verified, and are never judged.
#
# **Predict, then run:** what share of eight greedy drafts is never judged?

# %%
GAMMA = 8
fates = torch.zeros(3, GAMMA)  # accepted, rejected, never judged
ranks = torch.zeros(6)  # how the draft ranked the target's token where it was rejected
for seed, prompt in enumerate(prompts):
    request = Request(prompt, 64, greedy, GAMMA)
    drafter = ModelDrafter(DRAFT, greedy)
    prefix = prompt
    for one in speculative_rounds(TARGET, drafter, request, Seeded(seed)):
        if len(one.tokens) == GAMMA:
            fates[0, : one.n_accepted] += 1
            fates[1, one.n_accepted : one.judged] += 1
            fates[2, one.judged :] += 1
        prefix = torch.cat([prefix, torch.tensor(one.committed)])
        if one.extra == "resampled":
            logits = DRAFT(prefix[None, :-1], last=1)[0, 0]
            rank = int((logits > logits[prefix[-1]]).sum())
            ranks[min(rank, 5)] += 1

fates /= fates.sum(dim=0)
ranks /= ranks.sum()
print(f"never judged: {fates[2].mean():.0%} of all drafts")
left, right = axes(2, width=8)
heights = dict(zip(["accepted", "rejected", "never judged"], fates.tolist()))
bars(left, [str(i + 1) for i in range(GAMMA)], heights)
left.set_ylim(0, 1.35)
titles(left, "draft", "share of rounds")
bars(right, ["2nd", "3rd", "4th", "5th", "later"], {"share": ranks[1:].tolist()})
right.get_legend().remove()
titles(right, "the draft model's rank of the right token", "share of rejections")

# %% [markdown]
# **Figure 8.1.** Left: what becomes of each of eight greedy drafts. Right: where the
# draft's best token was rejected, how did the draft model rank the right one? Often it
# is the second or third. Offer these as well, and the round goes on.
#
# ## A tree of guesses
#
# A tree has several children at a node. Two lists say all about it: the token of each
# node, and its parent (-1 is the prefix). Parents come before children.

# %%
prompt = encode("PROSPERO:\nNow my charms are all")
n = len(prompt)
drafter = FixedTrees(DRAFT, from_widths([2, 3, 2]), greedy)
drafter.begin(TARGET.new_cache())
tree = drafter.propose_tree(prompt, depth=3, randomness=Seeded(0))
N = len(tree.tokens)
print("node  parent  depth  position  token")
for node, (parent, depth) in enumerate(zip(tree.parents, depths(tree.parents))):
    token = words([tree.tokens[node]])
    print(f"{node:>4}{parent:>8}{depth:>7}{n - 1 + depth:>10}  {token}")

# %% [markdown]
# ## One pass for all nodes
#
# All nodes go through the target in one pass, one row each. Two things make that right.
# Siblings stand at the *same position*, the one that their depth says. And the *mask*
# lets a node look at the prefix, its ancestors and itself, and at nobody else: not at a
# sibling, not at a cousin.

# %%
left, right = axes(2, width=9, height=3.2)
level = depths(tree.parents)
row_of = {-1: sum(depth == 1 for depth in level) / 2 - 0.5}
for node, (parent, depth) in enumerate(zip(tree.parents, level)):
    row_of[node] = sum(other == depth for other in level[:node])
    before = row_of[parent], row_of[node]
    left.plot([depth - 1, depth], before, color=COLOURS[1], zorder=1)
box = {"facecolor": "white", "edgecolor": "0.4", "boxstyle": "round"}
for node, depth in enumerate([0, *level], start=-1):
    label = "prefix" if node < 0 else f"{node}: {words([tree.tokens[node]])}"
    left.text(depth, row_of[node], label, ha="center", va="center", bbox=box)
left.invert_yaxis()
left.set(xlim=(-0.5, 3.5), xticks=range(4), yticks=[])
left.set_xticklabels([f"{n - 1 + depth}" for depth in range(4)])
titles(left, "position in the text", "")
left.grid(visible=False)

sees = tree_mask(tree.parents, range(N), range(N)) == 0
right.imshow(sees, cmap="Greys", vmax=1.6, aspect="equal")
right.set(xticks=range(N), yticks=range(N))
titles(right, "may look at node", "node (row of the pass)")
right.grid(visible=False)

# %% [markdown]
# **Figure 8.2.** Left: the tree by position; nodes in one column stand at the same
# position. Right: its mask, dark where a node may look. Every node also sees the whole
# prefix, which is not drawn. A chain has a full lower triangle here. A tree has gaps.
#
# So the row of a node should be what the target computes after the path to that node,
# written out as a plain text. Check it, node by node:

# %%
cache = TARGET.new_cache(n + N)
rows = verify_tree(TARGET, cache, prompt, tree, warm)  # [N + 1, V]
largest = 0.0
for node in range(-1, N):
    path = torch.tensor(path_tokens(tree.tokens, tree.parents, node), dtype=torch.long)
    alone = TARGET(torch.cat([prompt, path])[None], last=1)[0].softmax(dim=-1)
    largest = max(largest, float((rows[node + 1] - alone[0]).abs().max()))
print(f"{N + 1} rows from one pass; largest difference {largest:.0e}")
assert largest < 1e-4

# %% [markdown]
# ## Keeping a path
#
# A chain is rolled back by its length. A tree leaves its accepted path scattered among
# the other nodes. `keep_path` moves these rows together. They are right as they are: a
# key was computed for a position and a past, and neither changes when its slot does.

# %%
sharp = F.one_hot(rows.argmax(dim=-1), rows.shape[1]).to(rows.dtype)  # greedy
verdict = reject_tree(tree, sharp, Seeded(0))


def row_of_slots(tokens, kinds):
    """Slots of the last tokens of the prefix, then `tokens`."""
    tail = [(words([token]), "held") for token in prompt[-2:]]
    shown = [(words([token]), kind) for token, kind in zip(tokens, kinds)]
    return tail + shown + [("", "free")] * (N - len(shown))


drafts = tree.tokens.tolist()
before = row_of_slots(
    drafts, ["drafted" if node in verdict.path else "stale" for node in range(N)]
)
keep_path(cache, n, verdict.path)
after = row_of_slots([drafts[node] for node in verdict.path], ["held"] * N)
below = "slot, counted from the last two tokens of the prefix"
slots({"verified": before, "path kept": after}, width=8, below=below)
print(f"the cache holds {cache.length} = {n} + {len(verdict.path)} tokens")

# %% [markdown]
# **Figure 8.3.** The target's cache after the pass (only two slots of the prefix are
# drawn) and after `keep_path`. Hatched: the accepted path. Dotted: nodes off the path,
# which nobody reads again. A tree needs slots for all its nodes, although few of them
# stay.
#
# ## Judging siblings
#
# Stand at a node. Judge its first child as ever: accept it with $t(x) / d(x)$. If it is
# rejected, what is still wanted is the residual. The residual is a distribution, and it
# may be drawn from by rejection again, with the second child as the draft. So replace
# $t$ by the residual, and go on. That is exact for any number of children, if $d$ is
# the row that *this* child was really drawn from, *given its elder siblings*.
#
# Take three tokens, and two children at the prefix:

# %%
target_row = torch.tensor([2 / 3, 1 / 3, 0], dtype=torch.float64)
draft_row = torch.tensor([1 / 2, 0, 1 / 2], dtype=torch.float64)


def not_normalised(row, k, chance):
    """The mistake: delete the first child's token, and leave the row so."""
    tokens, rows = without_replacement(row, k, chance)
    deleted = row.clone()
    deleted[tokens[0]] = 0
    return tokens, torch.stack([row, deleted])


def one_round(choice, wanted=target_row, drafted=draft_row, k=2):
    """Whether a child was accepted, and the first token: the distribution of both."""

    def run(chance):
        tokens, rows = choice(drafted, k, chance)
        bush = Tree(torch.tensor(tokens), (-1,) * len(tokens), rows)
        target_probs = wanted.expand(len(tokens) + 1, -1)
        verdict = reject_tree(bush, target_probs, chance)
        token = tokens[verdict.path[0]] if verdict.path else verdict.next_token
        return len(verdict.path), token

    return output_distribution(run)


# %% [markdown]
# The draft never proposes B. It draws C half of the time, and C is always rejected: the
# target gives it nothing. What is wanted then is A 1/3, B 2/3. Without replacement the
# second child is A *for certain*, so its row is A 1, and it is accepted with
# $\frac{1/3}{1} = 1/3$.
#
# **Predict, then run:** someone deletes C from the draft's row and forgets to divide by
# what is left, so that the row says A 1/2. How often does B come out then?

# %%
ways = {
    "target": None,
    "without replacement": without_replacement,
    "with replacement": with_replacement,
    "most probable": most_probable,
    "not normalised": not_normalised,
}
first_tokens = {"target": target_row.tolist()}
for name, choice in ways.items():
    if choice is None:
        continue
    outcomes = one_round(choice)
    first_tokens[name] = [
        sum(p for (_, token), p in outcomes.items() if token == x) for x in range(3)
    ]
    shown = "  ".join(f"{x} {p:.4f}" for x, p in zip("ABC", first_tokens[name]))
    print(f"{name:<20} {shown}")
[ax] = axes(width=6.5)
names = ["target", "without replacement", "not normalised"]
bars(ax, ["A", "B", "C"], {name: first_tokens[name] for name in names})
ax.set_ylim(0, 1)
titles(ax, "first token", "probability")

# %% [markdown]
# **Figure 8.4.** The first token of a round with two children. Divided by what is left,
# the row gives B its 1/3. Not divided, the second child is accepted with $\frac{1/3}
# {1/2} = 2/3$ in place of 1/3, and B comes out in 1/6 of the texts, where 1/3 is due.
#
# *With* replacement is exact as well. But a later child may be the token that has just
# been rejected: a row of the pass for nothing. So it accepts less often, and the
# gap widens with more children. Here for rows that disagree on four tokens:

# %%
wanted = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
drafted = wanted.flip(0)
print("children   without   with   most probable: a child is accepted")
for k in range(1, 5):
    shown = ""
    for choice in (without_replacement, with_replacement, most_probable):
        outcomes = one_round(choice, wanted, drafted, k)
        shown += f"{sum(p for (n_kept, _), p in outcomes.items() if n_kept):>9.3f}"
    print(f"{k:>8}{shown}")

# %% [markdown]
# ## The best shape
#
# Which tree of N nodes has the most accepted drafts? Measure how often the child of
# rank 0, 1, 2, ... is the one accepted. The probability of reaching a node is then the
# product of these along its path, and the accepted drafts of a round are the sum over
# all nodes. First the ranks, on six texts. The tree for this is a fishbone: a chain of
# four, with five more children at each of its nodes. So every node that is judged has
# all six, and their shares may be compared. (With a tree, a request's `gamma` and
# `judge` are ignored: the drafter decides the depth, and `reject_tree` judges.)


# %%
def decode_all(drafter, sampling, gamma=4, n_tokens=64, seed=0):
    """All prompts by one drafter: alone, by chains, or by trees."""
    texts = []
    for prompt in prompts:
        request, chance = Request(prompt, n_tokens, sampling, gamma), Seeded(seed)
        if drafter is None:
            texts.append(generate_alone(TARGET, request, chance))
        elif isinstance(drafter, ModelDrafter):
            texts.append(generate(TARGET, drafter, request, chance))
        else:
            texts.append(generate_with_trees(TARGET, drafter, request, chance))
    return Generation(tuple(one for text in texts for one in text.rounds))


fishbone = ()
for _ in range(4):
    fishbone = (fishbone, *[()] * 5)
by_rank = {}
for name, sampling in {"temperature 0": greedy, "temperature 1": warm}.items():
    done = decode_all(FixedTrees(DRAFT, fishbone, sampling), sampling)
    by_rank[name] = acceptance_by_rank(done.rounds)
    print(f"{name}: " + "  ".join(f"{chance:.3f}" for chance in by_rank[name]))

# %% [markdown]
# The first child is worth far more than the others together. Now the other half of the
# question: what does a node cost? Time a pass of the target over $N + 1$ rows.

# %%
prefix = torch.cat(prompts)[:96]
target_cache = TARGET.new_cache()
draft_cache = DRAFT.new_cache()
TARGET(prefix[None, :-1], target_cache)
DRAFT(prefix[None, :-1], draft_cache)


def pass_over(model, cache, n_rows):
    """A pass over some rows, taken back, as a function to time."""

    def work():
        model(prefix[None, -1:].expand(1, n_rows), cache)
        rollback(cache, len(prefix) - 1)

    return work


ROWS = [1, 2, 3, 5, 9, 13, 17, 25]
times = milliseconds(
    {"draft": pass_over(DRAFT, draft_cache, 1)}
    | {str(rows): pass_over(TARGET, target_cache, rows) for rows in ROWS},
    repeats=11,
)
one_step = times["1"]
c = times["draft"] / one_step
v = [times[str(rows)] / one_step for rows in ROWS]
print(f"c = {c:.3f}; v: " + ", ".join(f"{r} rows {x:.2f}" for r, x in zip(ROWS, v)))


def verify_cost(N):
    """v of a pass over N + 1 rows, between what was measured."""
    for few, many, low, high in zip(ROWS, ROWS[1:], v, v[1:]):
        if N + 1 <= many:
            return low + (high - low) * (N + 1 - few) / (many - few)
    return v[-1]


sizes = [1, 2, 3, 4, 6, 8, 12, 16, 24]
a = by_rank["temperature 0"]
chains, trees = [], []
for N in sizes:
    chains.append(1 + sum(a[0] ** i for i in range(1, N + 1)))
    trees.append(1 + expected_accepted(best_shape_of(a, N, 8), a))
left, right = axes(2, width=8)
curves(left, ROWS, {"measured": v})
left.axhline(1, color="0.5", linewidth=0.8)
left.set_ylim(0, None)
titles(left, "rows of a pass", "time, over a pass of one row")
curves(right, sizes, {"best tree": trees, "chain": chains})
right.set_ylim(0, None)
titles(right, "nodes N", "expected tokens per pass")

# %% [markdown]
# **Figure 8.5.** Left: what rows cost on this machine; the grey line is the paper's
# assumption that they are free. Right: the expected tokens of a pass, for the best tree
# of $N$ nodes on up to eight levels and for a chain of $N$. Both are the same up
# to a few nodes: the first branch comes only where one more link of the chain is less
# probable than a second guess.
#
# A tree saves something else than a pass of the target: *depth*. It takes one pass of
# the draft for each level and not for each node. `best_shape` puts all this together:

# %%
shapes = {}
for name, chances in by_rank.items():
    best = best_shape(chances, c, verify_cost, n_nodes=16)
    if_free = best_shape(chances, c, n_nodes=16)  # v = 1
    shapes[name] = if_free
    for costs, shape in ("measured", best), ("free", if_free):
        tokens = 1 + expected_accepted(shape, chances)
        print(
            f"{name}, rows {costs:<8}: {n_nodes(shape):>2} nodes, levels of "
            f"{widths_of(shape)}, expected tokens per pass {tokens:.2f}"
        )

# %% [markdown]
# ## Measured: chain and tree
#
# Now decode: the target alone, chains of 4 and of 8, the best fixed tree of 16 nodes
# where rows are free, and `BestTrees`, which has no fixed shape: of all continuations
# it takes the 12 with the highest product of draft probabilities, deep where the draft
# is sure, bushy where it is not. (At temperature 1 its nodes are chosen and not drawn,
# which is exact, and accepted far less often.)
#
# **Predict, then run:** which has the most tokens per pass, and which is the fastest
# here?

# %%
print(f"{'':<16}{'':<12}{'tokens per pass':>16}{'expected':>10}{'speed-up':>10}")
measured = {}
for name, sampling in {"temperature 0": greedy, "temperature 1": warm}.items():
    drafters = {
        "alone": (None, 1),
        "chain of 4": (ModelDrafter(DRAFT, sampling), 4),
        "chain of 8": (ModelDrafter(DRAFT, sampling), 8),
        "fixed tree": (FixedTrees(DRAFT, shapes[name], sampling), 1),
        "BestTrees(12)": (BestTrees(DRAFT, 12, sampling), 1),
    }
    works = {
        key: lambda seed, how=how, gamma=gamma, sampling=sampling: decode_all(
            how, sampling, gamma, 48, seed
        )
        for key, (how, gamma) in drafters.items()
    }
    runs = by_turns(works, repeats=2)
    seconds = {key: sum(one.seconds for one in timed) for key, timed in runs.items()}
    for key, timed in runs.items():
        rounds = Generation(tuple(r for one in timed for r in one.result.rounds))
        tokens = rounds.tokens_per_target_forward
        gain = seconds["alone"] / seconds[key]
        measured[name, key] = tokens, gain
        expected = ""
        if key == "fixed tree":
            expected = f"{1 + expected_accepted(shapes[name], by_rank[name]):.2f}"
        print(f"{name:<16}{key:<14}{tokens:>14.2f}{expected:>10}{gain:>10.2f}")

# %%
left, right = axes(2, width=9)
keys = list(drafters)
for ax, part, what in (left, 0, "tokens per pass"), (right, 1, "speed-up"):
    heights = {
        name: [measured[name, key][part] for key in keys] for name in by_rank
    }
    bars(ax, [key.replace(" ", "\n").replace("(", "\n(") for key in keys], heights)
    ax.set_ylim(0, 1.35 * max(map(max, heights.values())))
    titles(ax, "", what)

# %% [markdown]
# **Figure 8.6.** Left: tokens per pass of the target. Right: speed-up over the target
# alone, on this machine. The ranking on the left does not decide the one on the right:
# at temperature 1 the fixed tree makes somewhat fewer tokens per pass than the chain of
# 8, and pays for twice the rows. At temperature 0 the draft's first choice fails more
# often, and the tree makes the most by far. Whether that pays for its rows depends on
# the hour, on this very machine: when 17 rows cost 1.58 steps and a draft step 0.04, it
# was the fastest of all, 1.99x against 1.67x for the chain of 8.
#
# The expectation is too high, for chains (figure 8.5) as for trees. It takes the chance
# of a rank to be the same everywhere, and text has hard places, where all ranks fail
# more often.
#
# ## Half-truth: "a tree accepts more, so it is faster"
#
# The first half is true where the draft's first choice often fails (here at temperature
# 0), and for a sure draft a longer chain does as well. The second half depends on what
# a row costs. On a GPU that serves one user, rows are free up to hundreds of them. On
# this CPU each row costs, and a tree pays for all its nodes to keep one path. For the
# tokens per pass just measured at temperature 0, the speed-up (drafting included) at
# three prices of a row:

# %%
print("a further row costs   chain of 8   fixed tree")
shape = shapes["temperature 0"]
for price in (0.0, 0.05, 0.2):
    found = [
        round_speedup(measured["temperature 0", key][0], passes, c, 1 + price * rows)
        for key, passes, rows in (
            ("chain of 8", 8, 8), ("fixed tree", depth_of(shape), n_nodes(shape))
        )
    ]
    print(f"{price:>10.2f} of a step{found[0]:>13.2f}{found[1]:>13.2f}")

# %% [markdown]
# ## Questions
#
# 1. Two siblings in a tree are the same token. Is that an error? What does it cost?
# 2. Why do siblings need the same position, and what would happen if each node had the
#    position of its slot?
# 3. With $a_0 = 0.8$ and $a_1 = 0.1$, and rows for free, how many links does the chain
#    have before the best tree gives the prefix a second child?
# 4. A tree of the draft's most probable tokens reports one-hot rows. Which row is
#    wanted after its first child is rejected?
#
# <details><summary>Answers</summary>
#
# 1. No. Drawn with replacement they are exact: each was drawn from its row. The second
#    one is a wasted row: the first was rejected there, so nothing more of it is wanted.
# 2. The target would compute a text with a gap in it: position vectors say how far away
#    a token is. The rows would be another model's, and the output distribution changes.
# 3. The link of depth $k$ is reached with $0.8^k$, the second child with 0.1.
#    $0.8^{10}$
#    is 0.107 and $0.8^{11}$ is 0.086: ten links, then the child.
# 4. The target's row without that token, normalised: norm(max(0, t - one-hot)).
#
# </details>
#
# **Exercises** (`python scripts/exercises.py next` shows them; in a notebook `from
# workbench import check`, `check(14)` grades): 14 (a tree's mask and positions) and 15
# (judging a tree, with children drawn without replacement).

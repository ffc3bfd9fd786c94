"""The round with a tree, and the loop of rounds; compare core/speculative.py.

    prefix --draft--> a tree of N nodes        one cheap step for each level
           --verify-> target_probs             one pass of the target
           --reject-> the path accepted, next_token
           --commit-> a longer prefix, cut where the text ends
           --roll back-> the target's cache keeps the path; then as for a chain

Nothing else differs. How deep a tree is is the drafter's business, so `Request.gamma`
is not asked, and neither is `Request.judge`, which judges chains.

Papers: SpecInfer, Miao et al. 2023 (arXiv 2305.09781); EAGLE-2, Li et al. 2024 (arXiv
2406.16858). Left out: batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from minispec.core.randomness import Randomness
from minispec.core.rollback import rollback
from minispec.core.rounds import Generation, Rows
from minispec.core.text import Request, Text
from minispec.model.gpt2 import GPT
from minispec.trees.checked import CheckedTrees
from minispec.trees.rejection import reject_tree
from minispec.trees.rounds import TreeRound
from minispec.trees.tree import TreeDrafter
from minispec.trees.verify import keep_path, verify_tree


def tree_round(
    target: GPT, drafter: TreeDrafter, text: Text, randomness: Randomness
) -> TreeRound:
    """Draft, verify, reject, commit, roll back: `text` gains a token or more."""
    n, prefix, sampling = text.length, text.prefix, text.request.sampling
    tree = drafter.propose_tree(prefix, text.room - 1, randomness)
    target_probs = verify_tree(target, text.cache, prefix, tree, sampling)
    verdict = reject_tree(tree, target_probs, randomness)

    drafts = tree.tokens.tolist()
    accepted = [drafts[node] for node in verdict.path]
    committed = text.commit([*accepted, verdict.next_token])

    keep_path(text.cache, n, verdict.path)
    rollback(text.cache, text.length - 1)  # the last token is always fed next time
    drafter.rollback(text.length - 1)
    kept = verdict.path[: len(committed)]  # an EOS cuts the text
    rows, reason = Rows(tree.draft_probs, target_probs), text.finish_reason
    nodes, parents = tuple(drafts), tree.parents
    return TreeRound(nodes, len(kept), committed, reason, rows, parents, kept)


def tree_rounds(
    target: GPT, drafter: TreeDrafter, request: Request, randomness: Randomness
) -> Iterator[TreeRound]:
    """Decode round by round until the request's limits end the text.

    Raises ValueError for a prompt that the target cannot read, and for a drafter that
    breaks its contract.
    """
    drafter = CheckedTrees(drafter, target.config.vocab_size)
    # Slots for the nodes that will not stay, beyond those of the text.
    capacity = request.limits(target.config).max_length + drafter.n_nodes
    text = Text(request, target, target.new_cache(capacity))
    drafter.begin(text.cache)
    while text.finish_reason is None:
        yield tree_round(target, drafter, text, randomness)


def generate_with_trees(
    target: GPT, drafter: TreeDrafter, request: Request, randomness: Randomness
) -> Generation:
    """The whole text at once. Raises as `tree_rounds` does."""
    rounds = tree_rounds(target, drafter, request, randomness)
    return Generation(tuple(replace(one, rows=None) for one in rounds))

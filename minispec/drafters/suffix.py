"""Suffix decoding: what followed most often whenever this was said.

    said before     to be or not    to be sure    to be or else
    the text ends   ... to be       followed by: or 2, sure 1     -> draft "or"

Prompt lookup (`ngram`) copies from the most recent match. This drafter counts. Its
index is a trie of all that was said, `longest` tokens deep: a node is a sequence of
tokens and the number of its occurrences. The suffixes of the text that occurred before
are its *contexts*. From a context the most frequent child, again and again, makes a
draft. The product of the frequencies up to a token estimates its chance; the sum of
these chances is the expected number of accepted tokens, if the text goes on as before.
Of all contexts' drafts the one of the highest sum is proposed. The longer its match,
the more it may draft: `factor` tokens for each that matches, none of a chance below
`least`.

A sequence that occurred once has no children. It points to its place in the text, and
the draft is copied from there. Only when it occurs again does it get a child, so memory
is linear in the text. A new token moves each context down by one node: no work grows
with the length of the text.

Rejected drafts never enter the index, so there is nothing to roll back. The present
text has an index of its own; one of earlier texts may be given as `history`.

Paper: Oliaro et al. 2024, "SuffixDecoding" (arXiv 2411.04975), section 3. Left out:
forgetting old texts when memory runs short.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from torch import Tensor

from minispec.core.draft import Drafter, Proposal
from minispec.core.randomness import Randomness
from minispec.checks import whole_number
from minispec.model.kv_cache import KVCache
from minispec.trees.tree import Tree, TreeDrafter

ROOT, END = 0, -1  # the empty sequence; what stands between two texts


class SuffixIndex:
    """Every sequence of up to `longest` tokens that occurred, and how often.

    A sequence goes on at a node or, if it has occurred once, at the place of its
    continuation: place p is written as ~p, which is below 0.
    """

    def __init__(self, longest: int = 16) -> None:
        self.longest = whole_number("longest", longest, least=1)
        self.text = array("q")
        self.children: dict[tuple[int, int], int] = {}  # (node, token) -> node
        self.token, self.count = array("q", [END]), array("q", [0])  # of each node
        self.place = array("q", [0])  # what follows its latest occurrence
        self.best = array("q", [0])  # its most frequent child; 0: it has none
        self.first, self.sibling = array("q", [0]), array("q", [0])  # all its children
        self.contexts = [ROOT]  # the text's suffixes that occurred before

    def add(self, tokens: Sequence[int]) -> None:
        """A whole text. Nothing is matched or copied across its end."""
        for token in tokens:
            self.push(token)
        self.text.append(END)
        self.contexts = [ROOT]

    def push(self, token: int) -> None:
        """The text goes on: each of its suffixes, with this token, occurs once more."""
        self.text.append(token)
        going_on = [ROOT]
        for length, node in enumerate(self.contexts, start=1):
            child = self.children.get((node, token))
            if child is None:
                self._new_child(node, len(self.text) - 1)
                continue
            if self.count[child] == 1 and length < self.longest:
                self._new_child(child, self.place[child])
            self.count[child] += 1
            self.place[child] = len(self.text)
            if self.count[child] >= self.count[self.best[node]]:
                self.best[node] = child
            if length < self.longest:
                going_on.append(child)
        self.contexts = going_on

    def _new_child(self, node: int, place: int) -> None:
        """The node's sequence went on with the token at `place`, for the first time."""
        token, child = self.text[place], len(self.token)
        if token == END:
            return
        self.children[node, token] = child
        for rows, value in (
            *((self.token, token), (self.count, 1), (self.place, place + 1)),
            *((self.best, 0), (self.first, 0), (self.sibling, self.first[node])),
        ):
            rows.append(value)
        self.first[node] = child
        if self.count[self.best[node]] <= 1:
            self.best[node] = child

    def after(self, at: int, token: int) -> int | None:
        """Where the sequence at `at` goes on after `token`; None: it never did."""
        if at < 0:
            return at - 1 if ~at < len(self.text) and self.text[~at] == token else None
        child = self.children.get((at, token))
        return None if child is None else self._where(child)

    def likeliest(self, at: int) -> tuple[int, int, int] | None:
        """What followed most often: the token, how often, and where that goes on."""
        if at >= 0:
            return self._told(self.best[at]) if self.best[at] else None
        ended = ~at >= len(self.text) or self.text[~at] == END
        return None if ended else (self.text[~at], 1, at - 1)

    def all_after(self, at: int) -> Iterator[tuple[int, int, int]]:
        """All that followed, told in the same way."""
        child = self.first[at] if at >= 0 else 0
        while child:
            yield self._told(child)
            child = self.sibling[child]
        if at < 0 and (copied := self.likeliest(at)):
            yield copied

    def _told(self, child: int) -> tuple[int, int, int]:
        return self.token[child], self.count[child], self._where(child)

    def _where(self, child: int) -> int:
        return child if self.first[child] else ~self.place[child]


class Context(NamedTuple):
    """A suffix of the text that occurred before."""

    said: SuffixIndex
    at: int  # where it goes on
    length: int
    times: int  # how often it occurred, the text's end included

    def chain(self, n: int, least: float) -> tuple[list[int], float]:
        """The likeliest tokens after it, and how many of them to expect accepted."""
        at, times, chance = self.at, self.times, 1.0
        tokens, expected = list[int](), 0.0
        while len(tokens) < n and (found := self.said.likeliest(at)):
            token, n_times, at = found
            chance *= n_times / times
            if chance < least:
                break
            times = n_times
            tokens.append(token)
            expected += chance
        return tokens, expected

    def tree(self, n: int, depth: int, least: float) -> tuple[list[int], list[int]]:
        """The n likeliest sequences after it: tokens [N] and parents [N]."""
        tokens, parents, waiting = list[int](), list[int](), list[Any]()
        order = count()  # of equals, the first comes out first

        def offer(node: int, level: int, chance: float, at: int, times: int) -> None:
            for token, n_times, then in self.said.all_after(at):
                reached = chance * n_times / times
                if reached >= least and level < depth:
                    where = node, level + 1, then
                    heappush(waiting, (-reached, next(order), token, n_times, *where))

        offer(-1, 0, 1.0, self.at, self.times)
        while waiting and len(tokens) < n:
            minus, _, token, times, parent, level, at = heappop(waiting)
            tokens.append(token)
            parents.append(parent)
            offer(len(tokens) - 1, level, -minus, at, times)
        return tokens, parents


class SuffixReader:
    """The text as it grows: its own index, and where it goes on in earlier texts."""

    def __init__(self, longest: int, history: SuffixIndex | None) -> None:
        self.own, self.history = SuffixIndex(longest), history
        self.followed = [ROOT]  # the text's suffixes that occur there, by length

    def read(self, prefix: Tensor) -> None:  # [n]
        """Take up what was committed since the last time."""
        for token in prefix[len(self.own.text) :].tolist():
            self.own.push(token)
            if self.history is not None:
                going_on = (self.history.after(at, token) for at in self.followed)
                occur = [at for at in going_on if at is not None]
                self.followed = [ROOT, *occur][: self.history.longest]

    def contexts(self) -> Iterator[Context]:
        """All that the next token may be guessed from, but for the empty suffix."""
        for length, at in enumerate(self.own.contexts[1:], start=1):
            yield Context(self.own, at, length, self.own.count[at])
        for length, at in enumerate(self.followed[1:], start=1):
            assert self.history is not None
            times = self.history.count[at] if at >= 0 else 1
            yield Context(self.history, at, length, times + 1)

    def best(self, gamma: int, factor: int, least: float) -> tuple[Context, list[int]]:
        """The context whose draft should bring most; of equals, the longest."""
        best, most = (Context(self.own, ROOT, 0, 1), list[int]()), 0.0
        for context in self.contexts():
            n = min(gamma, factor * context.length)
            tokens, expected = context.chain(n, least)
            if tokens and expected >= most:
                best, most = (context, tokens), expected
        return best


class SuffixDrafter(Drafter):
    """Proposes what followed most often; nothing, if nothing like this was said."""

    def __init__(
        self,
        vocab_size: int,
        history: SuffixIndex | None = None,
        longest: int = 16,
        factor: int = 4,
        least: float = 0.1,
    ) -> None:
        """`history` is only read. TypeError or ValueError for what cannot be right."""
        if history is not None and max(history.text, default=END) >= vocab_size:
            raise ValueError(
                f"the history has ids up to {max(history.text)} and the vocabulary "
                f"{vocab_size} tokens: encode it with the target's tokenizer"
            )
        self.vocab_size, self.history = vocab_size, history
        self.longest = whole_number("longest", longest, least=2)
        self.factor = whole_number("factor", factor, least=1)
        if not 0 <= least <= 1:
            raise ValueError(f"least must be a chance, 0 to 1, got {least}")
        self.least = least

    def begin(self, cache: KVCache) -> None:
        self.reader = SuffixReader(self.longest, self.history)

    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        self.reader.read(prefix)
        _, tokens = self.reader.best(gamma, self.factor, self.least)
        return Proposal.certain(prefix.new_tensor(tokens), self.vocab_size)


class SuffixTrees(TreeDrafter):
    """The same as trees: all that followed, the likeliest `n_nodes` of it."""

    def __init__(
        self, vocab_size: int, n_nodes: int, history: SuffixIndex | None = None
    ) -> None:
        self.n_nodes = whole_number("n_nodes", n_nodes, least=1)
        self.chains, self.vocab_size = SuffixDrafter(vocab_size, history), vocab_size

    def begin(self, cache: KVCache) -> None:
        self.chains.begin(cache)

    def propose_tree(self, prefix: Tensor, depth: int, randomness: Randomness) -> Tree:
        reader, how = self.chains.reader, (self.chains.factor, self.chains.least)
        reader.read(prefix)
        context, tokens = reader.best(depth, *how)
        grown = context.tree(self.n_nodes, len(tokens), how[1])
        ids, parents = prefix.new_tensor(grown[0]), tuple(grown[1])
        return Tree.certain(ids, parents, self.vocab_size)

"""Suffix decoding: the index against a count by hand, and what is drafted from it."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from minispec import Request, Sampling, Seeded, generate, generate_alone
from minispec.core.rounds import Generation
from minispec.drafters.suffix import (
    Context,
    SuffixDrafter,
    SuffixIndex,
    SuffixReader,
    SuffixTrees,
)

from support.decoding import tiny

TEXTS = st.lists(st.integers(0, 2), max_size=40)
LONGEST = 4


def followers(texts: list[list[int]], suffix: list[int]) -> Counter[int]:
    """What came after each occurrence of `suffix`, counted by hand."""
    n = len(suffix)
    return Counter(
        text[i + n]
        for text in texts
        for i in range(len(text) - n)
        if text[i : i + n] == suffix
    )


def read(text: list[int], earlier: list[list[int]]) -> SuffixReader:
    history = SuffixIndex(LONGEST) if earlier else None
    for one in earlier:
        assert history is not None
        history.add(one)
    reader = SuffixReader(LONGEST, history)
    for end in range(0, len(text) + 1, 3):  # in rounds of several tokens
        reader.read(torch.tensor(text[:end], dtype=torch.long))
    reader.read(torch.tensor(text, dtype=torch.long))
    return reader


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_what_followed_is_counted_exactly(text, earlier) -> None:
    """For every suffix that occurred before, in the text and in earlier ones."""
    reader = read(text, earlier)
    found: dict[tuple[bool, int], Counter[int]] = {}
    for context in reader.contexts():
        counted = {t: n for t, n, _ in context.said.all_after(context.at)}
        found[context.said is reader.own, context.length] = Counter(counted)
        if context.said is reader.own:  # and its end, after which nothing came yet
            suffix = text[-context.length :]
            ends = [text[:i] for i in range(len(text) + 1)]
            assert context.times == sum(e[-len(suffix) :] == suffix for e in ends)
    for length in range(1, min(LONGEST, len(text) + 1)):
        suffix = text[len(text) - length :]
        for own, texts in ((True, [text]), (False, earlier)):
            expected = followers(texts, suffix)
            got = found.get((own, length), Counter())
            assert got == expected or set(got) <= set(expected) and len(expected) == 1


@given(TEXTS, st.integers(1, 8))
def test_a_chain_is_the_likeliest_token_again_and_again(text, n) -> None:
    reader = read(text, [])
    for context in reader.contexts():
        tokens, expected = context.chain(n, least=0.0)
        said, chance, times, total = text[len(text) - context.length :], 1.0, 0, 0.0
        times = context.times
        for token in tokens:
            counts = followers([text], said)
            if len(said) >= LONGEST or sum(counts.values()) <= 1:
                break  # from here on it copies
            assert counts[token] == max(counts.values())
            chance *= counts[token] / times
            times, said = counts[token], [*said, token]
            total += chance
        assert expected >= total - 1e-12 and len(tokens) <= n


@given(TEXTS, st.integers(1, 12), st.integers(1, 4))
def test_a_tree_holds_the_likeliest_sequences(text, n, depth) -> None:
    """A node is as likely as those left out, and every path was said somewhere."""
    for context in read(text, []).contexts():
        tokens, parents = context.tree(n, depth, least=0.0)
        every, above = context.tree(10**6, depth, least=0.0)
        assert tokens == every[:n] and parents == above[:n]
        said = text[len(text) - context.length :]
        for node in range(len(tokens)):
            path = [node]
            while parents[path[0]] >= 0:
                path.insert(0, parents[path[0]])
            words = [*said, *(tokens[one] for one in path)]
            assert len(path) <= depth
            spans = range(len(text) - len(words) + 1)
            assert any(text[i : i + len(words)] == words for i in spans)


def test_frequency_decides_where_the_latest_match_misleads() -> None:
    text = [7, 1, 3, 5, *[7, 1, 2] * 3, 7, 1, 3, 7, 1]
    drafter = SuffixDrafter(8)
    drafter.begin(tiny(8).new_cache())
    proposal = drafter.propose(torch.tensor(text), 3, Seeded(0))
    assert proposal.tokens.tolist() == [2, 7, 1]


def test_the_longer_the_match_the_longer_the_draft() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    for matched, drafted in ((1, 2), (2, 4), (3, 6)):
        drafter = SuffixDrafter(20, factor=2)
        drafter.begin(tiny(20).new_cache())
        prefix = torch.tensor([*text, 15, *text[:matched]])
        proposal = drafter.propose(prefix, 100, Seeded(0))
        assert proposal.tokens.tolist() == text[matched : matched + drafted]


def test_earlier_texts_are_remembered_and_never_joined() -> None:
    history = SuffixIndex()
    history.add([1, 2, 3])
    history.add([4, 5])
    drafter = SuffixDrafter(9, history)

    def draft(prefix: list[int]) -> list[int]:
        drafter.begin(tiny(9).new_cache())
        return drafter.propose(torch.tensor(prefix), 5, Seeded(0)).tokens.tolist()

    assert draft([1, 2]) == [3] and draft([4]) == [5] and draft([3]) == []
    assert draft([8]) == [] and draft([1]) == [2, 3]  # of [1, 2] nothing is left


def all_work(index: SuffixIndex, text: list[int]) -> tuple[int, int]:
    """The most contexts at any token, and the nodes for each token."""
    most = 0
    for token in text:
        index.push(token)
        most = max(most, len(index.contexts))
    return most, len(index.token) / len(text)


@pytest.mark.parametrize("kind", ["random", "one letter", "said twice"])
def test_work_and_memory_do_not_grow_with_the_text(kind: str) -> None:
    generator = torch.Generator().manual_seed(0)

    def text(n: int) -> list[int]:
        if kind == "one letter":
            return [0] * n
        V = 30 if kind == "random" else 10**6
        words = torch.randint(0, V, (n,), generator=generator).tolist()
        return words if kind == "random" else words[: n // 2] * 2

    (work, nodes), (more_work, more_nodes) = (
        all_work(SuffixIndex(8), text(n)) for n in (1000, 20000)
    )
    assert more_work <= 8 and more_nodes <= 8 * 2
    assert more_nodes <= 2 * nodes


def test_trees_from_suffixes_have_the_texts_own_nodes() -> None:
    text = torch.tensor([1, 2, 3, 9, 1, 2, 4, 8, 1, 2, 3, 7, 1, 2])
    drafter = SuffixTrees(10, n_nodes=4)
    drafter.begin(tiny(10).new_cache())
    tree = drafter.propose_tree(text, 2, Seeded(0))
    assert (tree.tokens.tolist(), tree.parents) == ([3, 4, 7, 9], (-1, -1, 0, 0))


def test_greedy_text_is_the_targets() -> None:
    target = tiny(5, 3, 60, n_layer=2)
    request = Request(torch.tensor([0, 1]), 50, Sampling(temperature=0), gamma=5)
    done = generate(target, SuffixDrafter(5), request, Seeded(0))
    assert done.tokens == generate_alone(target, request, Seeded(0)).tokens
    assert isinstance(done, Generation) and done.accepted > 0


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="least must be a chance"):
        SuffixDrafter(5, least=2)
    with pytest.raises(TypeError, match="longest must be a whole number"):
        SuffixDrafter(5, longest=2.5)  # type: ignore[arg-type]
    assert Context(SuffixIndex(), 0, 0, 1).chain(3, 0.0) == ([], 0.0)
    foreign = SuffixIndex()
    foreign.add([1, 9, 2])
    with pytest.raises(ValueError, match="ids up to 9 and the vocabulary 5 tokens"):
        SuffixTrees(5, 3, foreign)
    SuffixDrafter(10, foreign)

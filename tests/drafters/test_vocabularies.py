"""Drafts of another vocabulary, by intersection and by string match.

The toy vocabularies here spell all texts of the letters a and b, each in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minispec import GPT, Drafter, Request, Sampling, Seeded, generate, generate_alone
from minispec.core.randomness import Randomness
from minispec.core.rejection import reject
from minispec.drafters.vocabularies import (
    IntersectionDrafter,
    Reading,
    StringMatchDrafter,
    continuation,
    drafter_for,
    shared_tokens,
)
from minispec.exactness import assert_same_distribution, output_distribution
from minispec.exactness.one_round import distribution_of_one_round
from minispec.files.tokenizer import Tokenizer

from support.decoding import prefilled, tiny
from support.vocabularies import gpt2_style, ranked

EOS = "<|endoftext|>"


class Toy:
    """Longest match first; the last id is EOS, and of no text."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = [token.encode() for token in tokens]
        self.eos_id, self.vocab_size = len(tokens), len(tokens) + 1
        self.specials = {EOS: self.eos_id}

    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        return b"".join([*self.tokens, b""][i] for i in ids)

    def encode_bytes(self, data: bytes) -> list[int]:
        ids = []
        while data:
            matches = [token for token in self.tokens if data.startswith(token)]
            ids.append(self.tokens.index(max(matches, key=len)))
            data = data[len(self.tokens[ids[-1]]) :]
        return ids

    def ids_by_bytes(self) -> dict[bytes, int]:
        return {token: i for i, token in enumerate(self.tokens)}

    def same_vocabulary(self, other: Toy) -> bool:
        return self.tokens == other.tokens


TARGET = Toy("a", "b", "ab")
DRAFTS = {
    "permuted": Toy("b", "ab", "a"),
    "in part": Toy("ba", "b", "a"),
    "letters": Toy("b", "a"),
}
WAYS = {"intersection": IntersectionDrafter, "string match": StringMatchDrafter}
SAMPLINGS = {
    "plain": Sampling(1.3, eos_ids=(3,)),
    "greedy": Sampling(0, eos_ids=(3,)),
    "chain": Sampling(0.9, 3, 0.9, 0.02, 1.3, eos_ids=(3,)),
}


def drafter(way: str, own: Toy, sampling: Sampling = Sampling(1.2)) -> Drafter:
    model = tiny(own.vocab_size, seed=5, n_positions=12)
    return WAYS[way](model, own, TARGET, sampling)  # type: ignore[arg-type]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("own", DRAFTS)
@pytest.mark.parametrize("way", WAYS)
def test_the_distribution_is_the_targets(way: str, own: str, sampling: str) -> None:
    target, foreign = tiny(4, seed=1, n_positions=16), drafter(way, DRAFTS[own])
    # String match draws several letters for each token, so that branches are many.
    n_new, gamma = (3, 2) if way == "intersection" else (2, 1)
    request = Request(torch.tensor([0, 1, 2]), n_new, SAMPLINGS[sampling], gamma)

    def run(chance: Randomness) -> tuple[int, ...]:
        return generate(target, foreign, request, chance).tokens

    found = output_distribution(run, max_branches=200_000)
    expected = output_distribution(
        lambda chance: generate_alone(target, request, chance).tokens
    )
    assert_same_distribution(found, expected)


@pytest.mark.parametrize("way", WAYS)
def test_drafts_end_with_the_drafts_context(way: str) -> None:
    foreign, prefix = drafter(way, DRAFTS["letters"]), torch.tensor([2] * 9)
    foreign.begin(tiny(4).new_cache())
    assert len(foreign.propose(prefix, 40, Seeded(0)).tokens) <= 12


@pytest.mark.parametrize("way", WAYS)
def test_after_a_text_of_special_tokens_nothing_is_drafted(way: str) -> None:
    """The draft has no ids of it, and goes on when there is a text."""
    foreign, cache = drafter(way, DRAFTS["letters"]), tiny(4).new_cache()
    foreign.begin(cache)
    assert len(foreign.propose(torch.tensor([3, 3]), 2, Seeded(0)).tokens) == 0
    foreign.rollback(1)
    assert len(foreign.propose(torch.tensor([3, 3, 0]), 1, Seeded(0)).tokens) == 1


def test_where_nothing_is_shared_intersection_drafts_nothing() -> None:
    target, own = Toy("aa", "ab", "ba", "bb"), Toy("a", "b")
    own.specials = {}
    model = tiny(3)
    nothing = IntersectionDrafter(model, own, target)  # type: ignore[arg-type]
    nothing.begin(tiny(5).new_cache())
    proposal = nothing.propose(torch.tensor([0, 1]), 3, Seeded(0))
    assert proposal.draft_probs.shape == (0, 5)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_what_both_have_is_drawn_with_its_own_weight(seed: int, gamma: int) -> None:
    """Each row is the draft's, without what is not shared, and sums to 1."""
    own = DRAFTS["in part"]
    foreign = drafter("intersection", own)
    foreign.begin(tiny(4).new_cache())
    proposal = foreign.propose(torch.tensor([2, 0]), gamma, Seeded(seed))
    model, ids = tiny(own.vocab_size, seed=5, n_positions=12), own.encode_bytes(b"aba")
    for token, row in zip(proposal.tokens.tolist(), proposal.draft_probs):
        probs = (model(torch.tensor([ids]))[0, -1] / 1.2).softmax(-1)
        expected = torch.stack([probs[2], probs[1], probs[0] * 0, probs[3]])
        torch.testing.assert_close(row, expected / expected.sum(), atol=1e-12, rtol=0)
        ids.append(own.specials[EOS] if token == 3 else {0: 2, 1: 1}[token])


def test_rows_that_are_not_normalised_would_change_the_distribution() -> None:
    """A quarter of the draft's mass is on tokens that are not shared."""
    target = torch.tensor([[0.4, 0.3, 0.2, 0.1]] * 2, dtype=torch.float64)
    rows = torch.tensor([[0.5, 0.25, 0.0, 0.0]], dtype=torch.float64)

    def first(declared: torch.Tensor) -> list[float]:
        found = distribution_of_one_round(reject, target, declared, rows / rows.sum())
        return [sum(p for t, p in found.items() if t[0] == x) for x in range(4)]

    assert first(rows / rows.sum()) == pytest.approx([0.4, 0.3, 0.2, 0.1])
    assert first(rows) == pytest.approx([0.533, 0.352, 0.076, 0.038], abs=5e-4)


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=5), max_size=8))
def test_reading_follows_the_committed_text(pieces) -> None:
    """In rounds; whatever was drafted in between; beyond the draft's own context."""
    own = DRAFTS["in part"]
    foreign = drafter("intersection", own)
    foreign.begin(tiny(4).new_cache())
    reading: Reading = foreign.reading  # type: ignore[attr-defined]
    prefix = [0]
    for number, piece in enumerate([[], *pieces]):
        prefix += piece
        gamma = number % 3
        ids = reading.read(torch.tensor(prefix), gamma)
        text = TARGET.decode_bytes(prefix)
        assert text.endswith(own.decode_bytes(ids)) and ids
        if len(ids) < 6:  # nothing was forgotten
            assert own.decode_bytes(ids) == text or len(text) > 6
        held = prefilled(tiny(4, 5, 12), torch.tensor(reading.seen[:0] + ids))
        n = reading.cache.length
        assert n < len(ids) and len(ids) + gamma <= 12 + 1
        mine, fresh = reading.cache.keys[0][:, :, :n], held.keys[0][:, :, :n]
        torch.testing.assert_close(mine, fresh, atol=1e-12, rtol=0)
        foreign.propose(torch.tensor(prefix), gamma, Seeded(number))


# --------------------------------------------------------------- borders between tokens


def test_no_committed_token_changes_at_the_border(tmp_path) -> None:
    tokenizer = ranked(tmp_path)  # has th, the, " the", é and half an emoji
    ids = tokenizer.ids_by_bytes()

    def after(committed: list[bytes], said: bytes) -> list[bytes]:
        prefix = torch.tensor([ids[one] for one in committed])
        found = continuation(tokenizer, prefix, said)
        return [tokenizer.decode_bytes([i]) for i in found]

    # "th" and "e" would be one token: the committed "th" stays, "e" stands alone.
    assert after([b"a", b"th"], b"e a") == [b"e", b" "]
    # A leading space belongs to the word after it.
    assert after([b"a"], b" the a") == [b" the", b" "]
    # A character that the committed text began and the draft ends.
    whole = "🤗".encode()
    assert after([whole[:2]], whole[2:] + b"th") == [whole[2:3], whole[3:]]
    # What only merges with what comes next is left out, unless nothing else was said.
    assert after([b"a"], b"the th") == [b"the", b" "]
    assert after([b"a"], b"t") == [b"t"]


@given(st.binary(max_size=12), st.binary(min_size=1, max_size=12))
def test_a_continuation_says_what_was_said(tmp_path_factory, before, said) -> None:
    tokenizer = gpt2_style(tmp_path_factory.mktemp("vocabulary"))
    prefix = torch.tensor(tokenizer.encode_bytes(before), dtype=torch.long)
    found = tokenizer.decode_bytes(continuation(tokenizer, prefix, said))
    assert found and said.startswith(found)


# ----------------------------------------------------------------- which way is chosen


def test_the_way_follows_from_what_is_shared(tmp_path) -> None:
    target, raw = gpt2_style(tmp_path), Tokenizer.from_bytes()
    models = {n: tiny(n) for n in (257, target.vocab_size)}

    def chosen(own: Tokenizer, theirs: Tokenizer) -> str:
        return drafter_for(models[own.vocab_size], own, theirs)[1]

    assert chosen(target, target).startswith("both models share a")
    assert chosen(raw, target).startswith("intersection: 257 of the target's 265")
    wide = [bytes([i, j]) for i in b"abcdefghijklmnopq" for j in b"abcdefghijklmnopq"]
    assert chosen(raw, ranked(tmp_path, wide)).startswith("string match: only 257 of")


def test_special_tokens_are_shared_by_name(tmp_path) -> None:
    raw, target = Tokenizer.from_bytes(), gpt2_style(tmp_path)
    pairs = shared_tokens(raw, target)
    assert pairs[256] == target.eos_id and len(pairs) == 257
    assert all(
        raw.decode_bytes([a]) == target.decode_bytes([b]) for a, b in pairs.items()
    )


def test_a_tokenizer_of_another_model_is_named(tmp_path) -> None:
    model: GPT = tiny(7)
    with pytest.raises(ValueError, match="has 7 ids and its tokenizer 257"):
        StringMatchDrafter(model, Tokenizer.from_bytes(), gpt2_style(tmp_path))

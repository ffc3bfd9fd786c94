"""Drafting with a model that speaks another vocabulary.

The committed text is fixed as the target's ids. The draft reads the same *bytes* in ids
of its own (`Reading`), and what it says must become ids of the target again. Two ways:

**Intersection.** The draft may only say what both vocabularies have:

    q'(x) = q(x) / sum of q over the shared tokens       x shared, else 0

Every drafted token is then a token of the target, drawn from the row q', written in the
target's ids. Without the division the rows are smaller than what was drawn from, and
too much is accepted: a target of (.4, .3, .2, .1) becomes (.533, .352, .076, .038).

**String match.** The draft writes some text in any of its tokens. That text is encoded
with the target's tokenizer, and its ids are proposed as chosen, not drawn: a one-hot
row accepts x with the target's own probability of x. Whatever chance wrote the text,
given the text the proposal is certain, so the output distribution is the target's.

Intersection keeps the draft's probabilities, and so accepts sum(min(target, q')) where
string match accepts the target's probability of one token. It is the better where much
of what is said is shared. A draft of bytes shares 37 % of the shipped target's tokens
in real text: there intersection is the better at temperature 1 and string match at 0
(notebook 11). `drafter_for` looks at the vocabularies, not at the temperature.

Papers: Timor et al. 2025 (arXiv 2502.05202), sections 3 (string match, SLEM) and 4
(intersection, TLI). Left out: rejection on the probability of whole strings (section
3), whose cost is exponential.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from minispec.core.draft import Drafter, ModelDrafter, Proposal
from minispec.core.randomness import Randomness
from minispec.core.rollback import rollback
from minispec.core.sampling import Sampling, logits_to_probs, normalize
from minispec.files.tokenizer import Tokenizer
from minispec.model.gpt2 import GPT
from minispec.model.kv_cache import KVCache

OVERLAP = 64  # bytes that are encoded again, since tokens may merge with what follows
CONTEXT = 32  # committed tokens that the target's tokenizer sees before a draft
ENOUGH = 0.5  # of the target's tokens must be shared, or the draft lacks the words


def drafter_for(
    model: GPT, own: Tokenizer, target: Tokenizer, sampling: Sampling = Sampling()
) -> tuple[Drafter, str]:
    """The drafter that suits the two vocabularies, and why, in a sentence."""
    if own.same_vocabulary(target):
        return ModelDrafter(model, sampling), "both models share a vocabulary"
    n_shared, V = len(shared_tokens(own, target)), target.vocab_size
    share = f"{n_shared} of the target's {V} tokens are the draft's too"
    if n_shared >= ENOUGH * V:
        drafter: Drafter = IntersectionDrafter(model, own, target, sampling)
        return drafter, f"intersection: {share}, and it may say only those"
    drafter = StringMatchDrafter(model, own, target, sampling)
    return drafter, f"string match: only {share}, so its text is encoded anew"


def shared_tokens(own: Tokenizer, target: Tokenizer) -> dict[int, int]:
    """Own id -> the target's id of the same token: same bytes, or same special name."""
    ordinary = own.ids_by_bytes()
    pairs = {
        ordinary[token]: theirs
        for token, theirs in target.ids_by_bytes().items()
        if token in ordinary
    }
    both = own.specials.keys() & target.specials.keys()
    return pairs | {own.specials[name]: target.specials[name] for name in both}


class Reading:
    """The committed text as ids of the draft, and the draft's cache of them.

    The committed ids of the target are never made anew. The draft's own may change near
    the end, where a longer text is cut into other tokens: the cache keeps what the old
    ids and the new have in common.
    """

    def __init__(self, model: GPT, own: Tokenizer, target: Tokenizer) -> None:
        self.own, self.target = own, target
        self.longest, self.cache = model.config.n_positions, model.new_cache()
        self.ids, self.end = list[int](), 0  # of the text up to byte `end`
        self.seen = list[int]()  # what the cache holds rows of
        self.text, self.n_target = bytearray(), 0

    def read(self, prefix: Tensor, room: int) -> list[int]:  # [n] -> m ids
        """The draft's ids of the prefix: the last ones that leave `room` for drafts.

        A special token is read as its text.
        """
        border = len(self.text) - OVERLAP
        self.text += self.target.decode_bytes(prefix[self.n_target :].tolist())
        self.n_target = len(prefix)
        while self.ids and self.end > border:
            self.end -= len(self.own.decode_bytes([self.ids.pop()]))
        self.ids += self.own.encode_bytes(bytes(self.text[self.end :]))
        self.end, most = len(self.text), max(1, self.longest - room)
        if len(self.ids) > most:  # forget the beginning, and some more for a while
            self.ids = self.ids[-(most + 1) // 2 :]
        in_common = common_length(self.ids, self.seen)
        rollback(self.cache, max(0, min(in_common, len(self.ids) - 1)))
        return list(self.ids)

    def tokens_per_target_token(self) -> float:
        """How many of its own tokens the draft needs for one of the target's."""
        n_bytes = len(self.own.decode_bytes(self.ids))
        return len(self.ids) / n_bytes * len(self.text) / self.n_target


class ForeignDrafter(Drafter):
    """What both ways share: the draft reads, and says one token after another."""

    def __init__(
        self,
        model: GPT,
        own: Tokenizer,
        target: Tokenizer,
        sampling: Sampling = Sampling(),
    ) -> None:
        """Raises ValueError for tokenizers whose ids the models do not have."""
        if own.vocab_size != model.config.vocab_size:
            raise ValueError(
                f"the draft has {model.config.vocab_size} ids and its tokenizer "
                f"{own.vocab_size}: take both from one folder"
            )
        self.model, self.own, self.foreign = model, own, target
        self.sampling, self.vocab_size = sampling, target.vocab_size

    def begin(self, cache: KVCache) -> None:
        self.reading = Reading(self.model, self.own, self.foreign)

    def next_row(self, ids: list[int]) -> Tensor:  # -> [V of the draft]
        """The draft's distribution after `ids`, feeding what its cache lacks."""
        cache = self.reading.cache
        known = torch.tensor(ids, device=cache.device)
        logits = self.model(known[None, cache.length :], cache, last=1)[0]
        self.reading.seen = ids
        return logits_to_probs(logits, self.sampling, known)[0]


class IntersectionDrafter(ForeignDrafter):
    """Says only what both vocabularies have, with its own probabilities."""

    def __init__(
        self,
        model: GPT,
        own: Tokenizer,
        target: Tokenizer,
        sampling: Sampling = Sampling(),
    ) -> None:
        super().__init__(model, own, target, sampling)
        pairs = shared_tokens(own, target)
        self.mine = torch.tensor([*pairs], dtype=torch.long)
        self.theirs = torch.tensor([*pairs.values()], dtype=torch.long)
        self.own_id = {theirs: mine for mine, theirs in pairs.items()}

    @torch.inference_mode()
    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        ids, tokens = self.reading.read(prefix, gamma), list[int]()
        rows = [torch.empty(0, self.vocab_size, device=prefix.device)]
        K = min(gamma, self.model.config.n_positions - len(ids) + 1) if ids else 0
        while len(tokens) < K:
            shared = self.next_row(ids)[self.mine]
            if not shared.sum() > 0:  # nothing it would say now is shared
                break
            row = shared.new_zeros(self.vocab_size)
            row[self.theirs] = shared
            rows.append(normalize(row)[None])
            tokens.append(randomness.sample(rows[-1][0]))
            ids = [*ids, self.own_id[tokens[-1]]]
        return Proposal(prefix.new_tensor(tokens), torch.cat(rows))


class StringMatchDrafter(ForeignDrafter):
    """Writes some text, and proposes the target's ids of it."""

    @torch.inference_mode()
    def propose(self, prefix: Tensor, gamma: int, randomness: Randomness) -> Proposal:
        tokens = list[int]()
        if gamma:
            said = self.write(prefix, gamma, randomness)
            tokens = continuation(self.foreign, prefix, said)[:gamma]
        return Proposal.certain(prefix.new_tensor(tokens), self.vocab_size)

    def write(self, prefix: Tensor, gamma: int, randomness: Randomness) -> bytes:
        """Text for gamma tokens of the target and one more; less at an EOS."""
        ids = self.reading.read(prefix, room=self.model.config.n_positions // 4)
        if not ids:
            return b""
        n = math.ceil((gamma + 1) * self.reading.tokens_per_target_token())
        drawn = list[int]()
        for _ in range(min(n, self.model.config.n_positions - len(ids) + 1)):
            drawn.append(randomness.sample(self.next_row([*ids, *drawn])))
            if drawn[-1] == self.own.eos_id:
                drawn.pop()
                break
        return self.own.decode_bytes(drawn)


def continuation(tokenizer: Tokenizer, prefix: Tensor, said: bytes) -> list[int]:
    """The ids of `said` after the prefix [n], whose own ids stay as they are.

    The tokenizer sees the end of the prefix too, for what it makes of a text depends on
    what stands before. If it would join both sides of the border in one token, `said`
    is encoded alone. Its last token is left out, if there are others: what comes next
    could have become a part of it.
    """
    before = tokenizer.decode_bytes(prefix[-CONTEXT:].tolist())
    ids, length = tokenizer.encode_bytes(before + said), 0
    while length < len(before):
        length += len(tokenizer.decode_bytes([ids.pop(0)]))
    if length > len(before):
        ids = tokenizer.encode_bytes(said)
    return ids[:-1] if len(ids) > 1 else ids


def common_length(a: list[int], b: list[int]) -> int:
    """How many ids two lists have in common from their beginning."""
    pairs = enumerate(zip(a, b))
    return next((i for i, (x, y) in pairs if x != y), min(len(a), len(b)))

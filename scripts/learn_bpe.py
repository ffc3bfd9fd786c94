#!/usr/bin/env python3
"""Learn a byte-level BPE vocabulary from a text: the trainer, written to be read.

Byte-pair encoding (Sennrich et al. 2016, section 3.2; on bytes: GPT-2, section 2.2)
starts from the 256 single bytes and repeats: find the most frequent pair of
neighbours inside words, make it a new token, join it everywhere.

Two choices make the trainer and tiktoken's encoder agree exactly. Words are cut with
GPT-2's own pattern, and a pair is known by its joined bytes, because that is all
tiktoken's ranks know: `b"the"` is one token, whether it came from t+he or th+e.
So after every step each word is split just as tiktoken would split it.

  python scripts/learn_bpe.py corpus/train.txt my.tiktoken --vocab-size 1024

A .tiktoken file has one line for each token, its bytes in base64 and its rank. The
special <|endoftext|> takes the last id and is not in the file: 1,023 lines here.
"""

from __future__ import annotations

import argparse
import base64
import heapq
import sys
from collections import Counter, defaultdict
from pathlib import Path

# tiktoken requires it, so it is there; the standard `re` has no \p{L}.
import regex  # type: ignore[import-untyped]

from minispec.commands.ending import Parser, ended
from minispec.files.errors import shown
from minispec.files.vocabulary import GPT2_SPLIT
from minispec.files.whole import check_writable, replacing

Ranks = dict[bytes, int]


class Parts:
    """The distinct words of a text, each split into parts; pairs counted and found.

    All words stand in one row of bytes, a gap after each. The part that starts at i
    ends at `end[i]`, where the next one starts; 0 stands where no part starts. A merge
    visits only the places where its pair stands, so learning takes about as long as
    the text is long.
    """

    def __init__(self, words: Counter[bytes]) -> None:
        self.row = b"".join(word + b"\0" for word in words)
        self.end: list[int] = []
        self.start: list[int] = []
        self.weight: list[int] = []  # how often the word of each byte occurs
        for word, frequency in words.items():
            first = len(self.end)
            self.end += [*range(first + 1, first + len(word) + 1), 0]
            # start[j]: where the part that ends at j starts; -1 at a word's beginning
            self.start += [-1, *range(first, first + len(word))]
            self.weight += [frequency] * (len(word) + 1)
        self.count: Counter[bytes] = Counter()
        self.places: defaultdict[bytes, set[int]] = defaultdict(set)
        self.ranking: list[tuple[int, bytes]] = []  # heap; old counts stay in it
        self.changed: set[bytes] = set()
        for i in range(len(self.row)):
            self._see(i, +1)

    def pair(self, i: int) -> bytes:
        """The joined bytes of the part at i and its right neighbour, or b""."""
        stop = self.end[self.end[i]] if i >= 0 and self.end[i] else 0
        return self.row[i:stop]

    def _see(self, i: int, sign: int) -> bytes:
        """Count the pair at i, or take it back; returns the pair."""
        pair = self.pair(i)
        if pair:
            self.count[pair] += sign * self.weight[i]
            (self.places[pair].add if sign > 0 else self.places[pair].discard)(i)
            self.changed.add(pair)
        return pair

    def most_frequent(self) -> bytes | None:
        """The commonest joined pair, the first in byte order among equals, or None."""
        for pair in self.changed:
            heapq.heappush(self.ranking, (-self.count[pair], pair))
        self.changed.clear()
        while self.ranking and -self.ranking[0][0] != self.count[self.ranking[0][1]]:
            heapq.heappop(self.ranking)
        return self.ranking[0][1] if self.ranking and self.ranking[0][0] else None

    def merge(self, token: bytes, ranks: Ranks) -> None:
        """Join `token`, just added to `ranks`, everywhere, and what it brings together.

        As BPE's encoder does it: the lowest rank first, and then from the left. A new
        token can complete a pair that is known already, from another split.
        """
        known = [(ranks[token], i) for i in self.places[token]]
        heapq.heapify(known)
        while known:
            rank, i = heapq.heappop(known)
            if ranks.get(self.pair(i)) != rank:
                continue  # an earlier join took one of its parts
            for j in self._join(i):
                if (found := ranks.get(self._see(j, +1))) is not None:
                    heapq.heappush(known, (found, j))

    def _join(self, i: int) -> tuple[int, int]:
        """One part of two; returns where pairs are new: before the part, and at it."""
        left, middle = self.start[i], self.end[i]
        for j in (left, i, middle):
            self._see(j, -1)
        self.end[i], self.end[middle] = self.end[middle], 0
        self.start[self.end[i]] = i
        return left, i


def learn_bpe(text: str, vocab_size: int) -> Ranks:
    """Token bytes -> rank, for `vocab_size` ids of which the last is <|endoftext|>.

    Returns vocab_size - 1 ranks: the 256 bytes in order, then the merges as learned.
    Raises ValueError if the size leaves no room for the bytes or the text is too short.
    """
    if vocab_size < 257:
        raise ValueError(
            f"vocab_size must be at least 257 (256 bytes and <|endoftext|>), "
            f"got {vocab_size}"
        )
    parts = Parts(Counter(word.encode() for word in regex.findall(GPT2_SPLIT, text)))
    ranks = {bytes([b]): b for b in range(256)}
    while len(ranks) < vocab_size - 1:
        token = parts.most_frequent()
        if token is None:
            raise ValueError(
                f"the text has only enough pairs for a vocabulary of {len(ranks) + 1} "
                f"ids, asked for {vocab_size}: give more text or a smaller size"
            )
        ranks[token] = len(ranks)
        parts.merge(token, ranks)
    return ranks


def read_text(path: Path) -> str:
    """A UTF-8 text with its line ends as they are; ValueError if it is not UTF-8."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start}): "
            "save it as UTF-8"
        ) from error


def write_tiktoken(ranks: Ranks, path: Path | str) -> None:
    """Write ranks in tiktoken's format: a line `base64(token) rank` each, in order."""
    lines = [base64.b64encode(token) + b" %d\n" % ranks[token] for token in ranks]
    with replacing(path) as part:
        part.write_bytes(b"".join(lines))


def main(argv: list[str] | None = None) -> int:
    """Run the command line; 0 when the file was written."""
    parser = Parser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("text", type=Path, help="a UTF-8 text, e.g. corpus/train.txt")
    add("out", type=Path, help="the .tiktoken file to write")
    add("--vocab-size", type=int, default=1024, help="ids in all (default: 1024)")
    args = parser.parse_args(argv)
    check_writable(args.out)
    ranks = learn_bpe(read_text(args.text), args.vocab_size)
    write_tiktoken(ranks, args.out)
    name, n = shown(args.out, 1000), len(ranks)
    print(f"{name}: {n:,} tokens, and <|endoftext|> as id {n}")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))

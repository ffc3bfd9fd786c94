#!/usr/bin/env python3
"""Learn a byte-level BPE vocabulary from a text: the trainer, written to be read.

Byte-pair encoding (Sennrich et al. 2016, section 3.2; on bytes: GPT-2, section 2.2)
starts from the 256 single bytes and repeats: find the most frequent pair of
neighbours inside words, make it a new token, join it everywhere.

Two choices make the trainer and tiktoken's encoder agree exactly. Words are cut with
GPT-2's own pattern, and a pair is known by its joined bytes, because that is all
tiktoken's ranks know: `b"the"` is one token, whether it came from t+he or th+e.
So after every step each word is split just as tiktoken would split it.
"""

import argparse
import base64
import sys
from collections import Counter, defaultdict
from pathlib import Path

# tiktoken requires it, so it is there; the standard `re` has no \p{L}.
import regex  # type: ignore[import-untyped]
from ending import ended, status_of

from minispec.vocabulary import GPT2_SPLIT

Ranks = dict[bytes, int]

DESCRIPTION = """\
Learn a byte-level BPE vocabulary from a text and write it as a .tiktoken file: one
line for each token, its bytes in base64 and its rank. The special <|endoftext|> takes
the last id and is not in the file, so --vocab-size 1024 writes 1,023 lines.
"""


def merge_word(parts: list[bytes], ranks: Ranks) -> list[bytes]:
    """Join neighbours, the lowest rank and then the leftmost first, while any can be.

    This is BPE's encoder. Started from single bytes or from an earlier, smaller
    vocabulary's split, it ends at the same parts.
    """
    parts = list(parts)
    while len(parts) > 1:
        joined = [ranks.get(a + b) for a, b in zip(parts, parts[1:])]
        known = [rank for rank in joined if rank is not None]
        if not known:
            break
        i = joined.index(min(known))
        parts[i] += parts.pop(i + 1)
    return parts


class PairCounts:
    """How often each joined pair occurs, kept up to date word by word.

    Only the words that hold the newest token change in a step, so a step costs what
    these words cost, not what the text does.
    """

    def __init__(self, words: Counter[bytes]) -> None:
        self.frequency = words
        self.parts = {word: [bytes([b]) for b in word] for word in words}
        self.count: Counter[bytes] = Counter()
        self.words_with: defaultdict[bytes, set[bytes]] = defaultdict(set)
        for word in words:
            self._add(word, +1)

    def _add(self, word: bytes, sign: int) -> None:
        parts = self.parts[word]
        for a, b in zip(parts, parts[1:]):
            self.count[a + b] += sign * self.frequency[word]
            self.words_with[a + b].add(word)

    def most_frequent(self) -> bytes | None:
        """The commonest joined pair, of equals the first in byte order, or None."""
        top = max(self.count.values(), default=0)
        if top == 0:
            return None
        return min(pair for pair, count in self.count.items() if count == top)

    def merge(self, token: bytes, ranks: Ranks) -> None:
        """Split anew each word in which `token`, just added to `ranks`, can occur."""
        for word in self.words_with.pop(token):
            self._add(word, -1)
            self.parts[word] = merge_word(self.parts[word], ranks)
            self._add(word, +1)
        del self.count[token]


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
    words = Counter(word.encode() for word in regex.findall(GPT2_SPLIT, text))
    pairs = PairCounts(words)
    ranks = {bytes([b]): b for b in range(256)}
    while len(ranks) < vocab_size - 1:
        token = pairs.most_frequent()
        if token is None:
            raise ValueError(
                f"the text has only enough pairs for a vocabulary of {len(ranks) + 1} "
                f"ids, asked for {vocab_size}: give more text or a smaller size"
            )
        ranks[token] = len(ranks)
        pairs.merge(token, ranks)
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
    lines = [
        base64.b64encode(token) + b" %d\n" % rank
        for token, rank in sorted(ranks.items(), key=lambda item: item[1])
    ]
    Path(path).write_bytes(b"".join(lines))


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=Path, help="a UTF-8 text, e.g. corpus/train.txt")
    parser.add_argument("out", type=Path, help="the .tiktoken file to write")
    parser.add_argument(
        "--vocab-size", type=int, default=1024, help="ids in all (default: 1024)"
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; 0 when the file was written, 2 when it could not be."""
    args = parse_args(argv)
    return status_of("learn_bpe", lambda: learn_and_write(args))


def learn_and_write(args: argparse.Namespace) -> None:
    """From a file to a file."""
    ranks = learn_bpe(read_text(args.text), args.vocab_size)
    write_tiktoken(ranks, args.out)
    print(f"{args.out}: {len(ranks):,} tokens, and <|endoftext|> as id {len(ranks)}")


if __name__ == "__main__":
    sys.exit(ended(main))

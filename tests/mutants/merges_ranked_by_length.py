"""Merges are listed from short tokens to long ones instead of by rank.

Made by whoever takes the vocabulary's growth for its order (inference).
"""

REPLACES = "checkpoint/tokenizer_export.py:merges"
CAUGHT_BY = ["test_tokenizer_export.py"]


def merges(rank_of: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    pairs = [
        (len(token), rank, token[:at], token[at:])
        for token, rank in rank_of.items()
        for at in range(1, len(token))
        if token[:at] in rank_of and token[at:] in rank_of
    ]
    return [(left, right) for *_, left, right in sorted(pairs)]

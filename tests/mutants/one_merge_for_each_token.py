"""Each token gets one merge, of its first split, where there may be several.

Made by whoever writes a merge list from ranks: most texts come out right (inference).
"""

REPLACES = "checkpoint/tokenizer_export.py:merges"
CAUGHT_BY = ["test_tokenizer_export.py"]


def merges(rank_of: dict[bytes, int]) -> list[tuple[bytes, bytes]]:
    found = {}
    for token in sorted(rank_of, key=rank_of.__getitem__):
        for at in range(1, len(token)):
            if token[:at] in rank_of and token[at:] in rank_of:
                found.setdefault(token, (token[:at], token[at:]))
    return list(found.values())

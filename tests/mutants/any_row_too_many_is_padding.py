"""Rows beyond config.json's vocabulary are cut off, however many there are.

Made by whoever wants a padded checkpoint to load; so does one of another model then
(inference).
"""

REPLACES = "checkpoint/vocabulary_rows.py:is_padded"
CAUGHT_BY = ["test_checkpoint.py"]


def is_padded(n_rows: int, vocab_size: int) -> bool:
    return n_rows > vocab_size

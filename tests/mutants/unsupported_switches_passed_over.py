"""Switches of config.json that make another model are ignored.

Made by whoever reads only the keys that he needs (inference).
"""

REPLACES = "checkpoint/config.py:FIXED"
CAUGHT_BY = ["test_checkpoint.py"]

FIXED = {"model_type": "gpt2"}

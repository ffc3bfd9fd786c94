"""The synonym "gelu_fast" is mapped to the exact GELU.

rinna's GPT-2 models say "gelu_fast"; it is the tanh form under another name. Made by
whoever maps names by their sound (inference).
"""

REPLACES = "checkpoint/config.py:SYNONYMS"
CAUGHT_BY = ["test_checkpoint.py"]

SYNONYMS = {"gelu_fast": "gelu", "gelu_pytorch_tanh": "gelu_new"}

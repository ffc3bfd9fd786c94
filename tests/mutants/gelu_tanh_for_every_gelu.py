"""The exact "gelu" gets GPT-2's tanh approximation.

Made by whoever tests with GPT-2 alone and then loads Cerebras-GPT, whose config.json
says "gelu" (inference).
"""

from functools import partial

import torch.nn.functional as F

REPLACES = "gpt2.py:ACTIVATIONS"
CAUGHT_BY = ["test_gpt2.py"]

TANH = partial(F.gelu, approximate="tanh")
ACTIVATIONS = {"gelu_new": TANH, "gelu": TANH, "relu": F.relu}

"""GPT-2's "gelu_new" is taken for the exact GELU.

Made by whoever reads "GELU" and calls `F.gelu` (inference; Cerebras-GPT's config.json
says "gelu" and means the exact one, GPT-2's says "gelu_new").
"""

import torch.nn.functional as F

REPLACES = "gpt2.py:ACTIVATIONS"
CAUGHT_BY = ["test_gpt2.py"]

ACTIVATIONS = {"gelu_new": F.gelu, "gelu": F.gelu, "relu": F.relu}

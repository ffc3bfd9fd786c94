"""`attn.bias` is known to be a mask, and `attn.masked_bias` beside it is not.

Masks that were missing or not expected: karpathy/minGPT, pull request 122;
huggingface/transformers, issues 4356 and 24581.
"""

import re

REPLACES = "checkpoint/key_names.py:MASK"
CAUGHT_BY = ["test_checkpoint.py"]

MASK = re.compile(r"h\.\d+\.attn\.bias")

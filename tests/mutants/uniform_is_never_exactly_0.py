"""`u <= ratio` is enumerated like `u < ratio`: a uniform of exactly 0 is forgotten.

It is how a token that the target forbids gets accepted, in huggingface/transformers by
`<=` (seen in its source) and in gpt-fast by a uniform of bfloat16 (likewise).
"""

import math
from typing import Any

from torch import Tensor

REPLACES = "exactness/rejection.py:OpenUniforms.__le__"
CAUGHT_BY = ["test_exactness_kit.py"]


class OpenUniforms:
    def __le__(self, threshold: Any) -> Tensor:
        return self._decide(threshold, math.ceil)

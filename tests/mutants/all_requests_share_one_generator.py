"""The seed is given to the global generator, which every request draws from.

Made by whoever calls random.seed; two requests at once then disturb each other (vllm-
project/vllm, issue 9441: requests with different seeds side by side).
"""

import random
from typing import Any

REPLACES = "randomness.py:Seeded.__init__"
CAUGHT_BY = ["test_randomness.py"]


class Seeded:
    def __init__(self, seed: int | None = None) -> None:
        random.seed(seed)
        self._generator: Any = random

"""A seed of 0 is taken for none, and no two runs are alike.

Made by whoever writes "seed or None".
"""

import random

REPLACES = "randomness.py:Seeded.__init__"
CAUGHT_BY = ["test_randomness.py"]


class Seeded:
    def __init__(self, seed: int | None = None) -> None:
        self._generator = random.Random(seed or None)

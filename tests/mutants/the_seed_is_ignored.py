"""The seed of the request changes nothing.

Made by whoever adds the argument and not its use (vllm-project/vllm, issue 6038: the
seed of a request was ignored in speculative decoding).
"""

import random

REPLACES = "randomness.py:Seeded.__init__"
CAUGHT_BY = ["test_randomness.py"]


class Seeded:
    def __init__(self, seed: int | None = None) -> None:
        self._generator = random.Random()

"""The passes of the target are counted without that of the prompt.

Made by whoever measures decoding alone: tokens per pass then look better than they are.
"""

REPLACES = "generation.py:Generation.target_forwards"
CAUGHT_BY = ["test_speculative.py"]


class Generation:
    @property
    def target_forwards(self) -> int:
        return max(len(self.rounds) - 1, 0)

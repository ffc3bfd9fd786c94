"""The extra token of every round counts as accepted.

Made by whoever takes the length of what is committed for the number of drafts in it.
"""

REPLACES = "generation.py:Round.n_accepted"
CAUGHT_BY = ["test_speculative.py"]


class Round:
    @property
    def n_accepted(self) -> int:
        return len(self.committed)

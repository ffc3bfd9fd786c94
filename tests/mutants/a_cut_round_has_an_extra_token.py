"""A round that an EOS cut among its drafts is told to end with a bonus.

Made by whoever forgets that a round may commit drafts alone.
"""

from typing import Literal

REPLACES = "generation.py:Round.extra"
CAUGHT_BY = ["test_speculative.py"]


class Round:
    @property
    def extra(self) -> Literal["bonus", "resampled"] | None:
        return "bonus" if self.n_accepted == len(self.drafted) else "resampled"

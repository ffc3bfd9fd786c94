"""Without drafts the acceptance rate is 0 / 0.

Made by whoever never asks for one token: LayerSkip's source divides by zero when
max_new_tokens is 1.
"""

REPLACES = "generation.py:Generation.acceptance_rate"
CAUGHT_BY = ["test_speculative.py"]


class Generation:
    @property
    def acceptance_rate(self) -> float | None:
        fates = [drafted.fate for round in self.rounds for drafted in round.drafted]
        return self.accepted / (len(fates) - fates.count("unread"))

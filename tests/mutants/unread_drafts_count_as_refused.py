"""The acceptance rate is accepted / drafted.

Made by whoever divides the two numbers at hand: drafts behind a refusal were never
judged, and alpha comes out too small. What exactly is counted decides the figure (ggml-
org/llama.cpp, issue 3919).
"""

REPLACES = "generation.py:Generation.acceptance_rate"
CAUGHT_BY = ["test_speculative.py"]


class Generation:
    @property
    def acceptance_rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None

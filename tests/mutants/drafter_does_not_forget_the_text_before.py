"""Told to forget everything, the drafter forgets nothing.

Made by whoever writes "if length": 0 is a length. State that leaked from one request
into the next was reported in ggml-org/llama.cpp, pull request 22105.
"""

from minispec.rollback import rollback

REPLACES = "draft.py:ModelDrafter.rollback"
CAUGHT_BY = ["test_draft.py"]


class ModelDrafter:
    def rollback(self, length: int) -> None:
        if length:
            rollback(self.cache, length)

"""A plain step of the target, with nothing drafted, is shown as a bonus.

Made by whoever asks whether all drafts were accepted: all of none were (compare
ggml-org/llama.cpp, issue 3919).
"""

from minispec.generation import Round

REPLACES = "trace/__init__.py:extra_label"
CAUGHT_BY = ["test_trace.py"]


def extra_label(round: Round) -> str:
    return round.extra or "plain"

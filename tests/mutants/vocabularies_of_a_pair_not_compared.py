"""Draft and target are loaded without asking whether they speak one vocabulary.

ggml-org/llama.cpp, issue 17480: ids of a draft that the target does not have.
"""

from pathlib import Path

from minispec.pair import Pair, load_model

REPLACES = "pair.py:load_pair"
CAUGHT_BY = ["test_cli_errors.py"]


def load_pair(target: Path, draft: Path | None) -> Pair:
    model, tokenizer = load_model(target)
    return Pair(model, load_model(draft)[0] if draft else None, tokenizer)
